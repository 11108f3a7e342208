"""A federation from nothing: safe defaults, secrets that others cannot read, clear refusals."""

import json
import os
import stat

import pytest
from typer.testing import CliRunner

from tacit.cli import app
from tacit.errors import ParameterError
from tacit.federation.engine.nvflare import CLASSES, write_job
from tacit.federation.files import CoordinatorConfig, SiteConfig
from tacit.federation.provision import init_federation


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("one") / "ours"
    command = ["federation", "init", str(folder), "--site", "North", "--site", "South"]
    result = CliRunner().invoke(app, [*command, "--port", "18123"], catch_exceptions=False)
    assert result.exit_code == 0
    assert "tacit coordinate" in result.output
    return folder


def kits(place):
    return [place / "coordinator" / "server", *(place / "sites").glob("*/kit")]


def test_only_four_classes_may_be_named_by_a_job(place):
    for kit in kits(place):
        resources = json.loads((kit / "local" / "resources.json.tacit").read_text())
        assert resources["class_list_enforcement_mode"] == "enforce"
        assert resources["class_allow_list"] == list(CLASSES)


def test_no_store_is_in_a_shared_folder(place):
    for kit in kits(place):
        assert '"/tmp' not in (kit / "local" / "resources.json.tacit").read_text()


def test_nobody_may_send_code_or_open_a_shell(place):
    for kit in kits(place):
        rights = json.loads((kit / "local" / "authorization.json").read_text())["permissions"]
        assert set(rights) == {"project_admin"}
        assert rights["project_admin"]["byoc"] == "none"
        assert rights["project_admin"]["shell_commands"] == "none"


def test_both_ends_ask_for_certificates(place):
    server = json.loads((place / "coordinator/server/startup/fed_server.json").read_text())
    client = json.loads((place / "sites/North/kit/startup/fed_client.json").read_text())
    assert server["servers"][0]["connection_security"] == "mtls"
    assert client["client"]["connection_security"] == "mtls"
    assert server["servers"][0]["service"]["target"] == "localhost:18123"


def test_secrets_are_for_their_owner_only(place):
    for path in [*place.rglob("*.key"), *place.rglob("*.toml")]:
        assert not path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO), path


def test_the_files_can_be_read_and_allow_nothing_yet(place):
    config = SiteConfig.read(place / "sites" / "North" / "site.toml")
    assert config.policy.permissions == ()
    assert "Nothing may be run." in config.policy.page("North")
    assert len(config.key()) == 32 and set(config.partners) == {"North", "South"}
    with pytest.raises(ParameterError, match="at least one"):
        CoordinatorConfig.read(place / "coordinator" / "coordinator.toml")


def test_the_policy_can_be_printed(place):
    file = place / "sites" / "South" / "site.toml"
    result = CliRunner().invoke(app, ["site", str(file), "--policy"], catch_exceptions=False)
    assert "What South consents to" in result.output


def test_a_job_holds_no_code(tmp_path):
    job = write_job(tmp_path, "job", ("North",))
    assert {path.suffix for path in job.rglob("*") if path.is_file()} == {".json"}
    named = [line for path in job.rglob("*.json") for line in path.read_text().split('"')
             if line.startswith(("tacit.", "nvflare."))]  # fmt: skip
    assert set(named) == set(CLASSES)


@pytest.mark.parametrize("sites", [[], ["A", "A"], ["../up"], ["ä"]])
def test_names_that_cannot_be_used_are_refused(tmp_path, sites):
    with pytest.raises(ParameterError):
        init_federation(tmp_path / "new", sites)
    assert not (tmp_path / "new").exists()


def test_nothing_is_overwritten(place):
    with pytest.raises(ParameterError, match="exists already"):
        init_federation(place, ["North"])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("name = 3\nledger = {}", "name must be"), ("name = 'A'", "lacks 'ledger'"),
        ("name = 'A'\nledger = {file = 'x'}", "lacks 'epsilon'"), ("nom = 'A'", "unknown entry"),
        ("name = ", "is no TOML"),
        ("name='A'\nledger={file='x',epsilon=1,delta=0}\n[[allow]]\ncomputation='shell'", "permi"),
    ],
)  # fmt: skip
def test_a_site_file_that_makes_no_sense_is_refused(tmp_path, text, reason):
    path = tmp_path / "site.toml"
    path.write_text(text)
    with pytest.raises(ParameterError, match=reason):
        SiteConfig.read(path)


def test_the_callers_umask_is_left_alone(tmp_path):
    before = os.umask(0o022)
    try:
        init_federation(tmp_path / "f", ["North"])
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)
