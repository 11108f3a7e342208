"""The release bundle: what is read is what was written, or nothing is read at all."""

import hashlib
import json
import math
import os
import pickle
import random
import subprocess
import sys
import warnings
import zipfile

import numpy as np
import pytest

from tacit.errors import NotCertified, TacitError, VerificationFailed
from tacit.estimators.release import older, read, read_release, write_release
from tacit.estimators.release.layout import sums_of
from tacit.estimators.site import Site
from tacit.privacy import certificate as certificates
from tacit.privacy.certificate import Certificate
from tacit.privacy.events import LaplaceDpEvent, NonPrivateDpEvent
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.keys import key_fingerprint
from tacit.privacy.ledger.ledger import Ledger
from tacit.regression.estimator import PrivateLinearRegression
from tacit.summary.estimator import PrivateSummary

FILES = {
    "README.md", "SHA256SUMS", "arrays.npz", "certificates.json", "manifest.json",
    "tables/numbers.csv",
}  # fmt: skip
ARRAYS = {
    "mean/age": np.array(41.5),
    "histogram/age/counts": np.arange(6.0),
    "rows/ß": np.array([[1, 2], [3, 4]], np.int64),
    "empty": np.zeros((0, 3), np.float32),
    "odd": np.array([np.nan, np.inf, -0.0]),
}


def certificate(**more):
    return Certificate.issue(Privacy(epsilon=1.0), LaplaceDpEvent(2.0), **more)


@pytest.fixture
def bundle(tmp_path):
    """Return the folder of a release of two sites."""
    certificates = {"Nörth": certificate(holder="Nörth"), "South": certificate(holder="South")}
    settings = {"bounds": {"age": [0, 110]}, "note": "größer"}
    return write_release(tmp_path / "release", "Example", ARRAYS, certificates, settings)


def files(folder):
    """Return every file of a release, by its name."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def resum(folder):
    """Let an attacker write the list of digests anew."""
    own = {name: data for name, data in files(folder).items() if not name.startswith("SHA256")}
    (folder / "SHA256SUMS").write_bytes(sums_of(own))


def reseal(folder, change):
    """Let an attacker change the manifest, and its digest with it."""
    path = folder / "manifest.json"
    manifest = change(json.loads(path.read_text("utf-8")))
    path.write_text(json.dumps(manifest, ensure_ascii=False), encoding="utf-8")
    resum(folder)


# -- writing and reading ----------------------------------------------------------------------


def test_a_release_reads_back_as_it_was_written(bundle):
    assert set(files(bundle)) == FILES
    release = read_release(bundle)
    assert release.estimator == "Example"
    assert release.manifest["settings"] == {"bounds": {"age": [0, 110]}, "note": "größer"}
    assert set(release.manifest["versions"]) == {"tacit", "numpy", "python"}
    assert release.arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        found = release.arrays[name]
        assert (found.dtype, found.shape, found.tobytes()) == (
            array.dtype, array.shape, array.tobytes(),
        )  # fmt: skip
    assert release.certificates["Nörth"] == certificate(holder="Nörth")


def test_a_fitted_summary_is_released_with_certificates_that_its_ledgers_confirm(tmp_path):
    rng = np.random.default_rng(0)
    sites = [
        Site(name, {"x": rng.random(200)}, Ledger.open(tmp_path / name, epsilon=2.0, delta=1e-5))
        for name in ("North", "South")
    ]
    privacy = Privacy(epsilon=1.0, delta=1e-6, trust="site")
    summary = PrivateSummary({"x": (0, 1)}, privacy=privacy, bins=4).fit(sites)
    summary.release(tmp_path / "release")
    release = read_release(tmp_path / "release")
    assert float(release.arrays["count"]) == summary.count_
    assert float(release.arrays["mean/x"]) == summary.mean_["x"]
    np.testing.assert_array_equal(release.arrays["quantiles/x"], summary.quantiles_["x"])
    np.testing.assert_array_equal(release.arrays["histogram/x/counts"], summary.histogram_["x"][0])
    for site in sites:
        release.certificates[site.name].verify(site.ledger)


def test_equal_releases_are_equal_files(tmp_path):
    """Nothing but the content is in the files: no time of day, no path."""
    for name in ("a", "b"):
        write_release(tmp_path / name, "Example", ARRAYS, {"North": certificate()}, {})
    assert files(tmp_path / "a") == files(tmp_path / "b")


# -- refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        (
            Certificate.issue(Privacy(epsilon=math.inf), NonPrivateDpEvent()),
            "no finite guarantee",
        ),
        (certificate(assumptions=("seeded noise: not for release",)), "seeded"),
    ],
    ids=["not private", "seeded"],
)
def test_what_has_no_guarantee_is_not_written(tmp_path, bad, match):
    certificates = {"North": certificate(), "South": bad}
    with pytest.raises(NotCertified, match=match):
        write_release(tmp_path / "release", "Example", ARRAYS, certificates, {})
    assert not (tmp_path / "release").exists()


def test_arrays_without_any_certificate_are_not_written(tmp_path):
    with pytest.raises(NotCertified):
        write_release(tmp_path / "release", "Example", ARRAYS, {}, {})
    assert not (tmp_path / "release").exists()


def test_an_existing_release_is_not_overwritten(bundle):
    before = files(bundle)
    with pytest.raises(NotCertified, match=r"holds a release already: choose another folder"):
        write_release(bundle, "Other", {"a": np.zeros(1)}, {"North": certificate()}, {})
    assert files(bundle) == before


class Bomb:
    """Fails the test if it is ever unpickled."""

    def __reduce__(self):
        return pytest.fail, ("a release was unpickled",)


@pytest.mark.parametrize("array", [np.array([Bomb()]), np.array([{}]), [None, 1.0]])
def test_an_object_array_is_not_written(tmp_path, array):
    with pytest.raises((TacitError, ValueError)):
        write_release(tmp_path / "release", "X", {"a": array}, {"North": certificate()}, {})
    assert not (tmp_path / "release" / "arrays.npz").exists()


def test_a_pickled_array_with_a_true_hash_is_not_opened(bundle):
    np.savez(bundle / "arrays.npz", **{"mean.age": np.array([Bomb()], dtype=object)})
    resum(bundle)
    with pytest.raises(VerificationFailed):
        read_release(bundle)


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_pickle_in_place_of_a_file_is_not_opened(bundle, name):
    (bundle / name).write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(VerificationFailed):
        read_release(bundle)


@pytest.mark.parametrize("name", ["file", "allow_pickle", "arr_0", "a.npy", "../up", "a/b"])
def test_an_array_may_have_any_name(tmp_path, name):
    folder = write_release(tmp_path / "r", "X", {name: np.ones(2)}, {"North": certificate()}, {})
    assert read_release(folder).arrays[name].tolist() == [1.0, 1.0]


# -- damaged ----------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.05, pytest.param(1.0, marks=pytest.mark.slow)])
def test_any_flipped_byte_is_found(bundle, share):
    contents = {bundle / name: data for name, data in files(bundle).items()}
    places = [(file, at) for file, data in contents.items() for at in range(len(data))]
    rng = random.Random(0)
    assert len(places) > 1000
    for file, at in rng.sample(places, int(share * len(places))):
        broken = bytearray(contents[file])
        broken[at] ^= rng.choice([0x01, 0x10, 0x80, 0xFF])
        file.write_bytes(broken)
        with pytest.raises(VerificationFailed):
            read_release(bundle)
        file.write_bytes(contents[file])
    read_release(bundle)


@pytest.mark.parametrize("extra", ["notes.txt", ".hidden", "manifest.json.bak"])
def test_a_file_that_does_not_belong_is_found(bundle, extra):
    (bundle / extra).write_text("anything", encoding="utf-8")
    with pytest.raises(VerificationFailed, match="no part of the release"):
        read_release(bundle)
    (bundle / extra).unlink()
    (bundle / "folder").mkdir()
    with pytest.raises(VerificationFailed, match="no part of the release"):
        read_release(bundle)


def test_reading_runs_no_code_of_the_release(bundle):
    """Reading needs no pickle at all."""
    code = (
        "import pickle\n"
        "from tacit.estimators.release import read_release\n"
        "def refuse(*a, **k): raise SystemExit('code was run')\n"
        "pickle.loads = pickle.load = pickle.Unpickler = refuse\n"
        f"read_release({str(bundle)!r})\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_changed_line_end_is_found(bundle):
    path = bundle / "manifest.json"
    content = path.read_bytes()
    for broken in (
        content.replace(b"\n", b"\r", 1),
        content.replace(b"\n", b"\r\n"),
        content[:-1] + b"\r",
        content + b"\n",
    ):
        path.write_bytes(broken)
        with pytest.raises(VerificationFailed):
            read_release(bundle)


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_missing_file_is_found(bundle, name):
    (bundle / name).unlink()
    with pytest.raises(VerificationFailed, match="not a whole release"):
        read_release(bundle)


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_truncated_file_is_found(bundle, name):
    content = (bundle / name).read_bytes()
    for length in (0, 1, len(content) // 2, len(content) - 2):
        (bundle / name).write_bytes(content[:length])
        with pytest.raises(VerificationFailed):
            read_release(bundle)


def test_a_folder_without_a_release_is_refused(tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(VerificationFailed, match="not a whole release"):
            read_release(folder)


def test_exchanged_certificates_are_found(bundle, tmp_path):
    other = write_release(tmp_path / "b", "X", ARRAYS, {"North": certificate(holder="B")}, {})
    (bundle / "certificates.json").write_bytes((other / "certificates.json").read_bytes())
    with pytest.raises(VerificationFailed, match="was changed after the release"):
        read_release(bundle)


@pytest.mark.parametrize(
    ("forger", "match"),
    [(False, "certificate was changed"), (True, "states epsilon=0.01, but its events give 0.5")],
    ids=["careless", "careful"],
)
def test_a_certificate_that_does_not_follow_from_its_events_is_found(bundle, forger, match):
    path = bundle / "certificates.json"
    data = json.loads(path.read_text("utf-8"))
    data["South"]["epsilon"] = 0.01
    if forger:
        del data["South"]["digest"]
        data["South"]["digest"] = certificates._digest(data["South"])
    path.write_text(json.dumps(data), encoding="utf-8")
    resum(bundle)
    with pytest.raises(VerificationFailed, match=match):
        read_release(bundle)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: {k: v for k, v in m.items() if k != "schema"},
        lambda m: {k: v for k, v in m.items() if k != "promises"},
        lambda m: {k: v for k, v in m.items() if k != "estimator"},
        lambda m: {**m, "schema": "first"},
        lambda m: {**m, "arrays": {}},
        lambda m: {**m, "more": 1},
        lambda m: {**m, "estimator": "Exаmple"},  # the a is Cyrillic
        lambda m: {**m, "module": "os; x"},
        lambda m: {**m, "purpose": "safe\u202egnihton"},
        lambda m: {**m, "promises": []},
        lambda m: {**m, "coords": {"item": ["a"]}, "arrays": []},
        lambda m: {**m, "signers": [{"key": "00"}]},
        lambda m: [],
    ],
)
def test_a_sealed_manifest_that_makes_no_sense_is_refused(bundle, change):
    reseal(bundle, change)
    with pytest.raises(VerificationFailed):
        read_release(bundle)


# -- hostile ----------------------------------------------------------------------------------


def test_a_link_is_not_followed(bundle, tmp_path):
    (bundle / "README.md").rename(tmp_path / "elsewhere")
    (bundle / "README.md").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(VerificationFailed):
        read_release(bundle)


def test_linked_tables_are_no_part_of_a_release(bundle, tmp_path):
    (bundle / "tables").rename(tmp_path / "tables")
    (bundle / "tables").symlink_to(tmp_path / "tables")
    with pytest.raises(VerificationFailed, match="no part of the release"):
        read_release(bundle)


@pytest.mark.parametrize("name", ["../up.csv", "a b.csv", "notes.txt", "größe.csv"])
def test_a_table_of_another_name_is_no_part_of_a_release(bundle, name):
    (bundle / "tables" / name).write_text("1", encoding="utf-8")
    with pytest.raises(VerificationFailed, match="no part of the release"):
        read_release(bundle)


@pytest.mark.parametrize("text", [b"[NaN]", b"[1e999]", b'{"a": 1, "a": 2}', b"\xef\xbb\xbf{}",
                                  b"[" * 100_000, b'"\xff"'])  # fmt: skip
@pytest.mark.parametrize("name", ["manifest.json", "certificates.json"])
def test_json_that_parsers_disagree_about_is_refused(bundle, name, text):
    (bundle / name).write_bytes(text)
    resum(bundle)
    with pytest.raises(VerificationFailed):
        read_release(bundle)


def rezip(folder, change, **options):
    """Let an attacker pack the arrays anew."""
    path = folder / "arrays.npz"
    with zipfile.ZipFile(path) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a name that occurs twice
        with zipfile.ZipFile(path, "w", **options) as archive:
            for name, data in change(members):
                archive.writestr(name, data)
    resum(folder)


@pytest.mark.parametrize(
    ("change", "options"),
    [
        (lambda members: [*members, members[0]], {}),
        (lambda members: members[1:], {}),
        (lambda members: [*members, ("../evil.npy", b"")], {}),
        (lambda members: [("/" + members[0][0], members[0][1]), *members[1:]], {}),
        (lambda members: [(members[0][0], members[1][1]), *members[1:]], {}),
        (lambda members: [(members[0][0], members[0][1][:-1]), *members[1:]], {}),
        (lambda members: [(members[0][0], members[0][1] + b"0"), *members[1:]], {}),
        (lambda members: members, {"compression": zipfile.ZIP_DEFLATED}),
        (lambda members: members, {"compression": zipfile.ZIP_LZMA}),
    ],
    ids=["twice", "missing", "up", "absolute", "swapped", "short", "long", "deflated", "lzma"],
)
def test_an_archive_that_is_not_what_the_manifest_says_is_refused(bundle, change, options):
    rezip(bundle, change, **options)
    with pytest.raises(VerificationFailed):
        read_release(bundle)


def test_a_huge_member_is_not_unpacked(bundle, monkeypatch):
    """An archive that would grow is refused before anything of it is read."""
    rezip(bundle, lambda m: [(name, b"\0" * (1 << 24)) for name, _ in m],
          compression=zipfile.ZIP_DEFLATED)  # fmt: skip
    monkeypatch.setattr(zipfile.ZipFile, "read", lambda *a: pytest.fail("it was unpacked"))
    with pytest.raises(VerificationFailed, match="more than its arrays"):
        read_release(bundle)


def test_a_file_that_is_too_large_is_not_read(bundle):
    with open(bundle / "README.md", "r+b") as file:
        file.truncate(1 << 40)
    with pytest.raises(VerificationFailed, match="more than"):
        read_release(bundle)


@pytest.mark.parametrize("dtype", ["U3", "complex64", "datetime64[s]", [("a", "f8")]])
def test_arrays_are_of_numbers(tmp_path, dtype):
    with pytest.raises(NotCertified, match="only numbers"):
        write_release(tmp_path / "r", "X", {"a": np.zeros(2, dtype)}, {"N": certificate()}, {})
    assert not (tmp_path / "r").exists()


def test_a_table_that_says_something_else_than_the_arrays_is_found(bundle):
    path = bundle / "tables" / "numbers.csv"
    path.write_text(path.read_text("utf-8").replace("41.5", "40.5"), encoding="utf-8")
    resum(bundle)
    with pytest.raises(VerificationFailed, match="the tables do not say what the arrays say"):
        read_release(bundle)


def test_a_name_in_a_table_is_no_formula(tmp_path):
    folder = write_release(
        tmp_path / "r", "X", {"base": np.ones(2)}, {"N": certificate()}, {},
        dims={"base": ("item",)}, coords={"item": ["=1+1", "Brazil"]},
    )  # fmt: skip
    assert (folder / "tables" / "item.csv").read_text("utf-8").splitlines() == [
        "item,base", "'=1+1,1.0", "Brazil,1.0",
    ]  # fmt: skip
    assert read_release(folder).coords == {"item": ("=1+1", "Brazil")}


# -- settings ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", [np.zeros(3), object(), {1: 2}, math.nan, math.inf, {"a": [lambda: 0]}, b"x", {1, 2}]
)
def test_a_setting_that_is_no_plain_data_is_not_written(tmp_path, value):
    with pytest.raises(NotCertified, match="the setting start"):
        write_release(tmp_path / "r", "X", ARRAYS, {"N": certificate()}, {"start": value})
    assert not (tmp_path / "r").exists()


# -- all or nothing ---------------------------------------------------------------------------


@pytest.mark.parametrize("failing", [1, 3, 5])
def test_a_crash_while_writing_leaves_nothing(tmp_path, monkeypatch, failing):
    done, fsync = [], os.fsync

    def break_down(number):
        done.append(number)
        if len(done) == failing:
            raise OSError(28, "No space left on device")
        fsync(number)

    monkeypatch.setattr(os, "fsync", break_down)
    with pytest.raises(NotCertified, match="No space left"):
        write_release(tmp_path / "r", "X", ARRAYS, {"N": certificate()}, {})
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_something_in_it_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(NotCertified, match="not an empty folder"):
        write_release(tmp_path, "X", ARRAYS, {"N": certificate()}, {})
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    (tmp_path / "empty").mkdir()
    read_release(write_release(tmp_path / "empty", "X", ARRAYS, {"N": certificate()}, {}))


# -- without tacit ----------------------------------------------------------------------------


def test_digests_are_checked_by_the_usual_command(bundle):
    command = ["sha256sum", "-c", "--quiet", "--strict", "SHA256SUMS"]
    subprocess.run(command, cwd=bundle, check=True)
    (bundle / "README.md").write_text("else", encoding="utf-8")
    found = subprocess.run(command, cwd=bundle, capture_output=True)
    assert found.returncode == 1


def test_the_readme_says_what_it_is_and_what_it_is_for(tmp_path):
    folder = write_release(
        tmp_path / "r", "X", ARRAYS, {"North": certificate(holder="North")}, {},
        purpose="a yearly report", contact="data@example.org", learned="Ages are 41.5 on average.",
    )  # fmt: skip
    text = (folder / "README.md").read_text("utf-8")
    for words in (
        "Ages are 41.5 on average.",
        "a yearly report",
        "data@example.org",
        "North: ε = 0.5, δ = 0, per row",
        "np.load",
        "from_release",
        "**date**: 20",
    ):
        assert words in text  # fmt: skip
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    assert manifest["purpose"] == "a yearly report"


def test_a_release_is_loaded_and_used_with_numpy_and_json_alone(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, (200, 2))
    model = PrivateLinearRegression(
        bounds={"a": (0, 1), "b": (0, 1)}, y_bounds=(0, 2), target="y",
        method="Bayes-fixedS-fast", privacy=Privacy(epsilon=2.0, delta=1e-6),
    ).fit({"a": x[:, 0], "b": x[:, 1], "y": x.sum(axis=1)})  # fmt: skip
    folder = model.release(tmp_path / "r")
    snippet = (folder / "README.md").read_text("utf-8").split("```python\n")[1].split("```")[0]
    code = (
        "import sys\nsys.modules['tacit'] = None\n" + snippet
        + "features = about['coords'][about['arrays']['coef']['dims'][0]]\n"
        "row = {'b': 0.75, 'a': 0.25}\n"
        "found = arrays['intercept'] + sum(c * row[f] for f, c in zip(features, arrays['coef']))\n"
        "print(float(found))\n"
    )  # fmt: skip
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True
    )
    assert float(run.stdout) == pytest.approx(model.predict({"a": [0.25], "b": [0.75]})[0])


# -- signatures -------------------------------------------------------------------------------


@pytest.fixture
def signed(tmp_path):
    """Return a release that its ledger signed, and the ledger."""
    ledger = Ledger.open(tmp_path / "n.db", epsilon=2.0, delta=1e-5)
    privacy = Privacy(epsilon=1.0, delta=1e-6)
    summary = PrivateSummary({"x": (0, 1)}, statistics=("mean",), privacy=privacy, ledger=ledger)
    return summary.fit({"x": np.linspace(0, 1, 50)}).release(tmp_path / "r"), ledger


def test_the_ledger_that_paid_signs(signed):
    folder, ledger = signed
    (signer,) = read_release(folder).signers
    assert signer["ledger"] == ledger.id and signer["key"] == ledger.key
    assert "the ledger's key" in signer["by"]


def test_a_signature_is_checked_without_tacit(signed):
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    folder, _ = signed
    key, signature = (folder / "SHA256SUMS.sig").read_text("ascii").split()
    public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(key))
    public.verify(bytes.fromhex(signature), (folder / "SHA256SUMS").read_bytes())


def test_a_signed_release_cannot_be_changed(signed):
    folder, _ = signed
    reseal(folder, lambda m: {**m, "purpose": "another"})
    with pytest.raises(VerificationFailed, match="forged"):
        read_release(folder)


def test_a_signature_cannot_be_left_out_quietly(signed):
    folder, _ = signed
    (folder / "SHA256SUMS.sig").unlink()
    with pytest.raises(VerificationFailed, match="do not go together"):
        read_release(folder)


def test_a_stranger_cannot_sign(signed, tmp_path):
    """A key counts where it signed a certificate of the release, and nowhere else."""
    folder, _ = signed
    other = Ledger.open(tmp_path / "other.db", epsilon=2.0, delta=1e-5)
    key = other.key

    def change(manifest):
        (said,) = manifest["signers"]
        return {**manifest, "signers": [{**said, "key": key, "fingerprint": key_fingerprint(key)}]}

    reseal(folder, change)
    seal = other.seal(lambda _: (folder / "SHA256SUMS").read_bytes())
    (folder / "SHA256SUMS.sig").write_text(f"{key} {seal.signature}\n", encoding="ascii")
    with pytest.raises(VerificationFailed, match="signed none of its certificates"):
        read_release(folder)


def test_who_did_not_pay_does_not_sign(tmp_path):
    ledger = Ledger.open(tmp_path / "n.db", epsilon=2.0, delta=1e-5)
    with pytest.raises(NotCertified, match="paid for nothing"):
        write_release(tmp_path / "r", "X", ARRAYS, {"N": certificate()}, {}, ledgers=[ledger])


# -- schemas ----------------------------------------------------------------------------------


def test_a_newer_schema_is_refused(bundle):
    reseal(bundle, lambda m: {**m, "schema": 3})
    with pytest.raises(VerificationFailed, match="release schema 3 is unknown here: update tacit"):
        read_release(bundle)


def test_an_older_release_is_upgraded(bundle, monkeypatch):
    upgrades = []

    def upgrade(manifest):
        upgrades.append(manifest["schema"])
        return {**manifest, "schema": 3, "estimator": "Renamed" + manifest["estimator"]}

    monkeypatch.setattr(read, "SCHEMA", 3)
    monkeypatch.setitem(older.UPGRADES, 2, upgrade)
    release = read_release(bundle)
    assert upgrades == [2]
    assert release.estimator == "RenamedExample"
    assert release.arrays.keys() == ARRAYS.keys()


def test_an_older_release_without_an_upgrade_is_refused(bundle, monkeypatch):
    monkeypatch.setattr(read, "SCHEMA", 4)
    monkeypatch.setitem(older.UPGRADES, 3, lambda manifest: {**manifest, "schema": 4})
    with pytest.raises(VerificationFailed, match="schema 2 is unknown"):
        read_release(bundle)


def first_schema(folder, model):
    """Write what a model learned as the first schema did."""
    folder.mkdir()
    told = {"columns", "by", "statistics", "bins", "quantiles"}
    arrays = {n: a for n, a in model.shared_.items() if n[:6] not in ("totals", "resolu")}
    np.savez(folder / "arrays.npz", **{f"array_{k}": a for k, a in enumerate(arrays.values())})
    texts = {site: json.loads(c.to_json()) for site, c in model.certificates_.items()}
    (folder / "certificates.json").write_text(json.dumps(texts), encoding="utf-8")
    manifest = {
        "schema": 1, "estimator": type(model).__name__, "arrays": list(arrays), "cites": [],
        "settings": {n: v for n, v in model._settings().items() if n in told}, "versions": {},
        "sha256": {
            name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
            for name in ("arrays.npz", "certificates.json")
        },
    }  # fmt: skip
    body = json.dumps(manifest, indent=1)
    seal = hashlib.sha256(body.encode()).hexdigest()
    (folder / "manifest.json").write_text(f"{body}\n{seal}\n", encoding="utf-8")


def test_a_release_of_the_first_schema_is_read(tmp_path):
    model = PrivateSummary({"x": (0, 1)}, bins=4, privacy=Privacy(epsilon=1.0, delta=1e-6))
    model.fit({"x": np.linspace(0, 1, 50)})
    first_schema(tmp_path / "old", model)
    back = PrivateSummary.from_release(tmp_path / "old")
    assert back.mean_ == model.mean_ and back.count_ == model.count_
    np.testing.assert_array_equal(back.histogram_["x"][0], model.histogram_["x"][0])
    path = tmp_path / "old" / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b'"bins": 4', b'"bins": 5'))
    with pytest.raises(VerificationFailed, match="the manifest was changed"):
        read_release(tmp_path / "old")
