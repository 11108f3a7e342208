"""The units and the compose file that a site gets: parsed, and held to what the wall needs."""

import configparser
import shutil
import subprocess
import sys

import pytest
import yaml

from tacit.federation.engine import deploy
from tacit.federation.engine.wall import Wall


def unit(text: str):
    found = configparser.ConfigParser(strict=True, interpolation=None)
    found.optionxform = str
    found.read_string(text)
    return found


@pytest.fixture
def folder(tmp_path):
    deploy.write_forms(tmp_path, "North")
    return tmp_path / "deploy"


def test_all_three_forms_are_written(folder):
    assert {path.name for path in folder.iterdir()} == {
        "README.txt", "compose.yaml", "tacit-site-North.service", "tacit-engine-North.service",
    }  # fmt: skip
    page = (folder / "README.txt").read_text()
    assert "tacit site site.toml" in page and "systemctl" in page and "docker compose" in page


def test_the_data_unit_has_no_network_and_writes_its_own_folder_only():
    service = unit(deploy.data_unit("North"))["Service"]
    assert service["PrivateNetwork"] == "yes"
    assert service["RestrictAddressFamilies"] == "AF_UNIX"
    assert service["NoNewPrivileges"] == "yes" and service["CapabilityBoundingSet"] == ""
    assert service["ProtectSystem"] == "strict"
    assert service["ReadWritePaths"] == "/var/lib/tacit/North"
    assert service["RuntimeDirectoryMode"] == "0750"
    assert service["ExecStart"].split()[1:] == ["site", "/var/lib/tacit/North/site.toml"]


def test_the_engine_unit_is_another_user_who_cannot_enter_the_sites_folder():
    data, engine = (unit(f("North"))["Service"] for f in (deploy.data_unit, deploy.engine_unit))
    assert engine["User"] != data["User"] and engine["Group"] != data["Group"]
    assert engine["SupplementaryGroups"] == data["Group"]
    assert engine["InaccessiblePaths"] == data["ReadWritePaths"]
    assert engine["StateDirectory"] == "tacit-engine/North"
    assert engine["StateDirectoryMode"] == "0700" and engine["NoNewPrivileges"] == "yes"
    assert "PrivateNetwork" not in engine and "ReadWritePaths" not in engine
    assert engine["ExecStart"].endswith(f"/run/{data['RuntimeDirectory']}/site.sock")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_finds_nothing_wrong_with_the_units(folder):
    units = sorted(folder.glob("*.service"))
    for path in units:  # what exists on this machine, in place of an installation
        path.write_text(path.read_text().replace("/opt/tacit/bin/tacit", sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *map(str, units)], capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    told = [line for line in (done.stdout + done.stderr).splitlines() if "tacit" in line]
    assert told == []
    bad = units[0].read_text().replace("PrivateNetwork=", "PrivateNetwrok=").replace(
        "InaccessiblePaths=", "InaccessiblePath=")  # fmt: skip
    units[0].write_text(bad)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(units[0])], capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert "Unknown key" in done.stdout + done.stderr


def test_the_containers_share_a_socket_and_nothing_else():
    found = yaml.safe_load(deploy.compose_file("North"))
    data, engine = found["services"]["data"], found["services"]["engine"]
    assert data["network_mode"] == "none" and "networks" not in data and "ports" not in data
    assert "network_mode" not in engine
    sources = {
        name: {volume.split(":")[0] for volume in service["volumes"]}
        for name, service in found["services"].items()
    }
    assert sources["data"] & sources["engine"] == {"door"}
    assert sources["engine"] == {"door", "../kit"} and "/site/kit" in data["tmpfs"]
    for service in (data, engine):
        assert service["read_only"] is True and service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert "privileged" not in service and "pid" not in service and "ipc" not in service
    users = {service["user"].split(":")[0] for service in (data, engine)}
    assert len(users) == 2 and "0" not in users
    assert "mode=0750" in found["volumes"]["door"]["driver_opts"]["o"]


def test_the_lines_for_site_toml_name_the_users_of_the_forms(folder, tmp_path):
    page = (folder / "README.txt").read_text()
    lines = [line.strip() for line in page.splitlines() if line.strip().startswith("engine =")]
    assert lines == ['engine = "user:tacit-engine"', f'engine = "user:{deploy.COMPOSE["engine"]}"']
    table = {"engine": lines[1].split('"')[1], "socket": "/run/tacit/site.sock"}
    assert Wall.from_table(table, tmp_path).user == deploy.COMPOSE["engine"]
