"""Messy tables: how each is written, what is wrong with it, and what is right about it.

A case changes cells of the clean table and says by hand what they stand for. ``faults`` are the
cells that cannot be used as they are; ``effect`` says what the stated policy makes of them. Frames
hold the same cells, as text or typed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unicodedata import normalize

import numpy as np

from experiments._messy.visits import Cells, Typed, visits, written

Fault = tuple[int, str]


@dataclass(frozen=True)
class Case:
    """One messy table.

    Attributes
    ----------
    cells, typed
        What is written, and what it stands for, column by column.
    faults
        (row, column) of cells that cannot be used as they are; rows count from 0.
    effect
        ``"error"``; ``"drop"`` for rows with a fault in a column that is used; or column → the
        value that stands there instead.
    refused
        Words that every refusal must have, for a table that is wrong as a whole.
    source, policy
        What is stated about the file, and about the columns.
    write
        How the file is written.
    frames
        Whether frames can hold it.
    distinct
        Whether no cell of patient and test is listed twice.
    whole
        The rows that count where nobody's rows are bounded, if these are others.
    """

    name: str
    cells: Cells
    typed: Typed
    faults: tuple[Fault, ...] = ()
    effect: Any = "error"
    refused: tuple[str, ...] = ()
    source: dict[str, Any] = field(default_factory=dict)
    policy: dict[str, Any] = field(default_factory=dict)
    write: Callable[[Path, Cells], Path] | None = None
    frames: bool = True
    typed_frames: bool = False
    either: bool = False  # a refusal that names the file will do as well
    distinct: bool = True
    whole: Typed | None = None
    shown: tuple[str, ...] = ()  # the places of a folder's faults

    def file(self, folder: Path) -> Path:
        """Write the table and return where."""
        return (self.write or csv())(folder, self.cells)

    def truth(self, used: tuple[str, ...]) -> Typed | None:
        """Return the rows that count, by hand; None where the table is to be refused."""
        mine = [(row, name) for row, name in self.faults if name in used]
        if self.refused or (mine and self.effect == "error"):
            return None
        rows = self.typed if self.whole is None or "patient" in used else self.whole
        typed = {name: list(column) for name, column in rows.items()}
        if self.effect == "drop":
            gone = {row for row, _ in mine}
            return {n: [v for k, v in enumerate(c) if k not in gone] for n, c in typed.items()}
        for row, name in mine:
            typed[name][row] = self.effect[name]
        return typed


def csv(
    separator: str = ",",
    encoding: str = "utf-8",
    end: str = "\n",
    ending: str = "csv",
    quote: bool = False,
    start: str = "",
    stop: str | None = None,
    name: str = "visits",
) -> Callable[[Path, Cells], Path]:
    """Return a writer of text files."""

    def cell(value: Any) -> str:
        text = "" if value is None else str(value)
        marked = quote or any(mark in text for mark in (separator, '"', "\n"))
        return '"' + text.replace('"', '""') + '"' if marked else text

    def write(folder: Path, cells: Cells) -> Path:
        lines = [separator.join(cell(name) for name in cells)]
        lines += [separator.join(map(cell, row)) for row in zip(*cells.values(), strict=True)]
        file = folder / f"{name}.{ending}"
        text = start + end.join(lines) + (end if stop is None else stop)
        file.write_bytes(text.encode(encoding))
        return file

    return write


def raw(content: bytes, name: str = "visits.csv") -> Callable[[Path, Cells], Path]:
    """Return a writer of given bytes."""

    def write(folder: Path, _: Cells) -> Path:
        file = folder / name
        file.write_bytes(content)
        return file

    return write


def binary(ending: str, typed: Typed | None = None) -> Callable[[Path, Cells], Path]:
    """Return a writer of Parquet or Feather."""

    def write(folder: Path, cells: Cells) -> Path:
        import polars as pl

        file, frame = folder / f"visits.{ending}", pl.DataFrame(typed or cells)
        frame.write_parquet(file) if ending == "parquet" else frame.write_ipc(file)
        return file

    return write


def folder_of(*writers: Callable[[Path, Cells], Path], drop: str = "") -> Any:
    """Return a writer of a folder of files, each with some rows and an order of its own."""

    def write(folder: Path, cells: Cells) -> Path:
        home = folder / "visits"
        home.mkdir()
        rows = len(next(iter(cells.values())))
        for k, writer in enumerate(writers):
            part = slice(rows * k // len(writers), rows * (k + 1) // len(writers))
            names = [*list(cells)[k:], *list(cells)[:k]]
            if drop and k:
                names.remove(drop)
            made = writer(folder, {name: cells[name][part] for name in names})
            made.rename(home / f"{k}{made.suffix}")
        return home

    return write


def changed(cells: Cells, column: str, changes: dict[int, Any]) -> Cells:
    """Return cells with some of a column replaced."""
    return {
        name: [changes.get(k, v) if name == column else v for k, v in enumerate(values)]
        for name, values in cells.items()
    }


def commas(cells: Cells, thousands: str = "") -> Cells:
    """Return cells with decimal commas, and a mark for thousands."""
    found = {name: list(column) for name, column in cells.items()}
    for name in ("result", "dose", "pressure"):
        found[name] = [text.replace(".", ",") for text in found[name]]
    if thousands:
        found["steps"] = [f"{int(text):,}".replace(",", thousands) for text in found["steps"]]
    return found


def cases(rows: int = 240) -> Iterator[Case]:
    """Yield all messy tables but the largest."""
    typed = visits(rows)
    cells = written(typed)
    yield from _as_written(cells, typed)
    yield from _other_names(cells, typed)
    yield from _by_policy(cells, typed)
    yield from _people(cells, typed)
    yield from _wrong_cells(cells, typed)
    yield from _wrong_files(cells, typed)


def _as_written(cells: Cells, typed: Typed) -> Iterator[Case]:
    """Yield tables that are right once it is stated how they are written."""
    comma = {"separator": ";", "decimal": ","}
    yield Case("plain", cells, typed, typed_frames=True)
    yield Case("decimal commas", commas(cells), typed, source=comma, write=csv(";"), frames=False)
    yield Case("commas and points for thousands", commas(cells, "."), typed, frames=False,
               source={**comma, "thousands": "."}, write=csv(";"))  # fmt: skip
    apart = {**cells, "steps": [f"{int(text):,}" for text in cells["steps"]]}
    yield Case("thousands", apart, typed, source={"thousands": ","}, frames=False)
    spaced = {**cells, "steps": [f"{int(text):,}".replace(",", " ") for text in cells["steps"]]}
    yield Case("thousands by blanks", spaced, typed, source={"thousands": " "}, frames=False)
    yield Case("tabs", cells, typed, write=csv("\t", ending="tsv"), frames=False)
    yield Case("pipes", cells, typed, write=csv("|"), frames=False)
    yield Case("semicolons in a txt", cells, typed, write=csv(";", ending="txt"), frames=False)
    yield Case("byte order mark", cells, typed, write=csv(start="\ufeff"), frames=False)
    yield Case("byte order mark and quotes", cells, typed, frames=False,
               write=csv(start="\ufeff", quote=True))  # fmt: skip
    for encoding in ("latin-1", "cp1252", "utf-16"):
        yield Case(f"in {encoding}", cells, typed, source={"encoding": encoding},
                   write=csv(encoding=encoding), frames=False)  # fmt: skip
    yield Case("carriage returns", cells, typed, write=csv(end="\r\n"), frames=False)
    yield Case("no last line end", cells, typed, write=csv(stop=""), frames=False)
    two = changed(cells, "remark", {3: 'said "no"\nthen, yes', 9: "a\r\nb"})
    yield Case("quoted newlines", two, typed)
    yield Case("everything quoted", cells, typed, write=csv(quote=True), frames=False)
    blanks = {name: [f" {text} " for text in column] for name, column in cells.items()}
    yield Case("blanks around cells", blanks, typed)
    words = ["Y", "true", "1", "T", "YES"], ["N", "False", "0", "f", "no"]
    said = [words[0 if v else 1][k % 5] for k, v in enumerate(typed["treated"])]
    yield Case("five ways to say yes", {**cells, "treated": said}, typed)
    forms = ("%d.%m.%Y", "%Y-%m-%d", "%m/%d/%Y")
    shown = [day.strftime(forms[k % 3]) for k, day in enumerate(typed["admitted"])]
    yield Case("dates in three forms", {**cells, "admitted": shown}, typed,
               policy={"formats": forms})  # fmt: skip
    placed = [f"{day}T{k % 24:02d}:30:00{'+02:00' if k % 2 else '-0500'}"
              for k, day in enumerate(typed["admitted"])]  # fmt: skip
    yield Case("days with times and their offsets", {**cells, "admitted": placed}, typed)
    apart = {name: [normalize("NFD", text) for text in column] for name, column in cells.items()}
    yield Case("letters composed otherwise", apart, typed)
    odd = [[f"{a}.0", f"+{a}", f"{a / 10}e1", f"0{a}"][k % 4] for k, a in enumerate(typed["age"])]
    yield Case("numbers in four forms", {**cells, "age": odd}, typed)
    order = np.random.default_rng(1).permutation(len(typed["age"]))
    yield Case("unsorted", _rows(cells, order), _rows(typed, order), typed_frames=True)
    yield Case("Parquet", cells, typed, write=binary("parquet", typed), frames=False)
    yield Case("Parquet of text", cells, typed, write=binary("parquet"), frames=False)
    yield Case("Feather", cells, typed, write=binary("feather", typed), frames=False)
    three = folder_of(csv(), csv(), csv())
    yield Case("a folder, columns in other orders", cells, typed, write=three, frames=False)
    mixed = folder_of(csv(), binary("parquet"), csv("\t", ending="tsv"))
    yield Case("a folder of three formats", cells, typed, write=mixed, frames=False)


def _other_names(cells: Cells, typed: Typed) -> Iterator[Case]:
    """Yield tables whose columns are called or ordered otherwise."""
    names = list(cells)
    turned = {name: cells[name] for name in names[::-1]}
    yield Case("columns in reverse", turned, typed, typed_frames=True)
    yield Case("names in capitals", {n.upper(): c for n, c in cells.items()}, typed)
    yield Case("blanks around names", {f" {n} ": c for n, c in cells.items()}, typed)
    more = {"Age at exit": cells["steps"], **cells, "age_group": cells["n"]}
    yield Case("further columns", more, typed)
    for old, new in (("age", "years"), ("patient", "id"), ("result", "value")):
        other = {new if n == old else n: c for n, c in cells.items()}
        yield Case(f"{old} is called {new}", other, typed, faults=((-1, old),))
    both = {**cells, "AGE ": cells["steps"], "Age": cells["n"]}
    del both["age"]
    yield Case("two columns that could be meant", both, typed, faults=((-1, "age"),))


def _by_policy(cells: Cells, typed: Typed) -> Iterator[Case]:
    """Yield tables with bad cells for which something is stated."""
    holes = {2: "", 5: "NA", 11: "n/a", 30: "-", 31: "null"}
    gaps = changed(changed(cells, "age", holes), "ward", {7: "", 8: "None"})
    found = (*((row, "age") for row in holes), (7, "ward"), (8, "ward"))
    yield Case("missing, dropped", gaps, typed, found, "drop", policy={"missing": "drop"})
    constants = {"age": 50, "ward": "Bonn", "job": "cook"}
    yield Case("missing, imputed", gaps, typed, found, constants,
               policy={"missing": "impute", "constants": constants})  # fmt: skip
    coded = changed(changed(cells, "age", {2: "-99", 5: "-99.0"}), "dose", {9: "k.A."})
    found = ((2, "age"), (5, "age"), (9, "dose"))
    yield Case("words of their own for nothing", coded, typed, found, "drop", frames=False,
               source={"na": ["-99", "k.A."]},
               policy={"missing": "drop", "outside": "clip"})  # fmt: skip
    strange = changed(cells, "ward", {4: "Trier", 90: "köln"})
    found = ((4, "ward"), (90, "ward"))
    yield Case("unknown, dropped", strange, typed, found, "drop", policy={"unknown": "drop"})
    far = changed(cells, "age", {4: "200", 17: "-3", 50: "1e9"})
    found = ((4, "age"), (17, "age"), (50, "age"))
    yield Case("outside, dropped", far, typed, found, "drop", policy={"outside": "drop"})
    high = changed(cells, "age", {4: "200", 17: "1000"})
    yield Case("outside, clipped", high, typed, ((4, "age"), (17, "age")), {"age": 90},
               policy={"outside": "clip"})  # fmt: skip


def _people(cells: Cells, typed: Typed) -> Iterator[Case]:
    """Yield tables in which it matters who is who."""
    ids = [f"{12 + k // 4:04d}" if k % 4 < 2 else f"{12 + k // 4}" for k in range(len(typed["n"]))]
    yield Case("leading zeros", {**cells, "patient": ids}, {**typed, "patient": ids},
               typed_frames=True)  # fmt: skip
    dotted = [f"1.{k // 4:03d}" if k % 4 < 2 else f"1{k // 4:03d}" for k in range(len(ids))]
    marked = commas({**cells, "patient": dotted}, ".")
    yield Case("ids with points, and points for thousands", marked, {**typed, "patient": dotted},
               source={"separator": ";", "decimal": ",", "thousands": "."}, write=csv(";"),
               frames=False)  # fmt: skip
    again = np.repeat(np.arange(len(ids)), np.where(np.arange(len(ids)) == 6, 50, 1))
    again = again[again != 7]  # the other row of that patient
    two = np.array([k for n, k in enumerate(again) if k != 6 or list(again[:n]).count(6) < 2])
    yield Case("fifty rows of one patient", _rows(cells, again), _rows(typed, two), distinct=False,
               whole=_rows(typed, again))  # fmt: skip
    twice = np.sort(np.append(np.arange(len(ids)), [4, 20]))
    yield Case("rows that stand twice", _rows(cells, twice), _rows(typed, twice), distinct=False,
               policy={"rows_per_person": 3})  # fmt: skip
    yield Case("rows that stand twice, counted once", _rows(cells, twice), typed, distinct=False,
               policy={"key": ["patient", "test"], "duplicates": "first"})  # fmt: skip
    long = [f"{'a' * 100_000}{k}" if int(k) < 12 else k for k in typed["patient"]]
    yield Case("ids of a hundred thousand letters", {**cells, "patient": long},
               {**typed, "patient": long})  # fmt: skip
    none = changed(cells, "patient", {8: "", 9: "NA"})
    yield Case("nobody's rows", none, typed, ((8, "patient"), (9, "patient")))


def _wrong_cells(cells: Cells, typed: Typed) -> Iterator[Case]:
    """Yield tables with bad cells and nothing stated about them."""

    def case(name: str, column: str, changes: dict[int, Any], **more: Any) -> Case:
        made = changed(more.pop("cells", cells), column, changes)
        return Case(name, made, typed, tuple((row, column) for row in changes), **more)

    yield case("missing", "age", {2: "", 40: "NA"})
    yield case("a missing result", "result", {3: "", 41: "nan"})
    yield case("text among numbers", "age", {3: "about 40", 100: "50 y"})
    yield case("text among results", "result", {5: "low", 60: "<5"})
    yield case("an unknown ward", "ward", {6: "Trier"})
    yield case("an unknown test", "test", {6: "LDL-C", 70: "ldl"})
    yield case("outside the range", "dose", {0: "5.001", 9: "-1"})
    yield case("a byte of zeros in a number", "age", {3: "4\x000", 9: "\x00"})
    yield case("infinity", "pressure", {12: "inf", 13: "1e400"})
    yield case("an infinite result", "result", {12: "inf"})
    yield case("decimal commas that nobody stated", "dose", {1: "1,5", 3: "2,25"})
    yield case("thousands that nobody stated", "steps", {1: "1,500", 3: "12 000"})
    yield case("a point among decimal commas", "dose", {1: "1.5", 3: "1.500"}, frames=False,
               cells=commas(cells), source={"separator": ";", "decimal": ","},
               write=csv(";"))  # fmt: skip
    yield case("dates in a form that nobody stated", "admitted", {1: "05.06.2021", 3: "6/5/21"})
    yield case("days that do not exist", "admitted", {1: "2021-02-30", 3: "0000-00-00"})
    yield case("maybe", "treated", {1: "maybe", 3: "2"})
    many = cells
    found: list[Fault] = []
    for column, value in (("age", "old"), ("dose", ""), ("sex", "q"), ("ward", "Trier"),
                          ("treated", "?"), ("admitted", "soon"), ("pressure", "999"),
                          ("result", "x"), ("test", "?!"), ("patient", "")):  # fmt: skip
        rows = (5 + len(found), 100 + len(found))
        many = changed(many, column, dict.fromkeys(rows, value))
        found += [(row, column) for row in rows]
    yield Case("ten things at once", many, typed, tuple(found))
    parts, last = folder_of(csv(), csv(), csv()), len(typed["n"]) - 2
    shown = f"2.csv, row {last - len(typed['n']) * 2 // 3 + 1}:"
    yield case("one bad cell in a folder", "age", {last: "old"}, write=parts, frames=False,
               shown=(shown,))  # fmt: skip


def _wrong_files(cells: Cells, typed: Typed) -> Iterator[Case]:
    """Yield files that are wrong as a whole, or nearly empty."""
    here = ("visits.csv",)
    head = ",".join(cells)
    line = ",".join(f"{column[0]}" for column in cells.values())

    def whole(name: str, write: Any, *words: str, **more: Any) -> Case:
        return Case(name, cells, typed, refused=(*here, *words), write=write, frames=False, **more)

    yield whole("an empty file", raw(b""))
    yield whole("blank lines only", raw(b"\n\n\n"))
    yield whole("carriage returns alone", csv(end="\r"), "line feed")
    yield whole("a line of headings without end", raw(head.encode() * 40_000))
    yield whole("in latin-1, which nobody stated", csv(encoding="latin-1"), "row")
    yield whole("a column twice", raw(f"{head},age\n{line},3\n".encode()), "age")
    yield whole("a column without a name", raw(f"{head},\n{line},3\n".encode()), "name")
    yield whole("a row that is too long", raw(f"{head}\n{line}\n{line},3\n".encode()), "row 2")
    yield whole(
        "a quote that never ends", raw(f'{head}\n{line}\n"{line}\n{line}\n'.encode()), "row 2"
    )
    yield whole("a picture", raw(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4))
    xlsx = raw(b"PK\x03\x04", "visits.xlsx")
    yield Case("a spreadsheet", cells, typed, refused=("visits.xlsx",), write=xlsx, frames=False)
    broken = raw(b"PAR1 and no more", "visits.parquet")
    yield Case("a broken Parquet file", cells, typed, refused=("visits.parquet",), write=broken,
               frames=False)  # fmt: skip
    lacking = folder_of(csv(), csv(), csv(), drop="age")
    yield Case("a folder in which a column is missing", cells, typed, refused=("1.csv", "age"),
               write=lacking, frames=False)  # fmt: skip
    short = raw(f"{head}\n{line}\n{line.rsplit(',', 6)[0]}\n".encode())
    first = {name: [column[0]] * 2 for name, column in typed.items()}
    gone = tuple((1, name) for name in ("ward", "treated", "admitted", "job", "note"))
    yield Case("a row that is too short", cells, first, gone, distinct=False, write=short,
               frames=False, either=True)  # fmt: skip
    gap = raw(f"{head}\n{line}\n\n{line}\n".encode())
    yield Case("a blank line", cells, first, write=gap, distinct=False, either=True, frames=False)
    none = {name: [] for name in cells}
    yield Case("no rows", none, {name: [] for name in typed}, either=True)
    one = np.array([0])
    yield Case("one row", _rows(cells, one), _rows(typed, one), either=True, typed_frames=True)


def _rows(table: dict[str, list[Any]], order: Any) -> dict[str, list[Any]]:
    return {name: [column[k] for k in order] for name, column in table.items()}


def largest(rows: int) -> Case:
    """Return a table of many rows, written straight to a file."""
    small = visits(2000)
    times = max(1, rows // 2000)
    typed = {name: column * times for name, column in small.items()}
    typed["patient"] = [f"{k // 2:07d}" for k in range(2000 * times)]
    return Case(f"{2000 * times:,} rows", written(typed), typed, write=_fast, frames=False)


def _fast(folder: Path, cells: Cells) -> Path:
    import polars as pl

    pl.DataFrame(cells).write_csv(folder / "visits.csv")
    return folder / "visits.csv"
