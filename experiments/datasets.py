"""Loaders of well-known public files from a path; the files are never part of tacit."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np

from tacit.data.documents import Documents
from tacit.data.relations import Relation
from tacit.errors import ParameterError

__all__ = [
    "bike_sharing",
    "digg",
    "filmtrust",
    "flickr",
    "kos",
    "lastfm_plays",
    "lastfm_tags",
    "libimseti",
    "movielens",
    "movielens_20m",
    "movielens_kinds",
    "movielens_large",
    "netflix",
    "power_plant",
    "topic_moments",
    "uclaf",
]


def _file(folder: str | os.PathLike[str], name: str) -> Path:
    path = Path(folder) / name
    if not path.exists():
        raise ParameterError(f"there is no {name} in {folder}: pass the folder that holds it")
    return path


def uclaf(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the UCLAF arrays: visits (user × place × activity), gps, poi, friends, activities.

    Source: Zheng et al. (2010), ``aaai10.uclaf.data.mat``.
    """
    from scipy.io import loadmat

    arrays = loadmat(_file(folder, "aaai10.uclaf.data.mat"))
    names = {
        "visits": "UserLocAct", "gps": "UserLoc", "poi": "LocFea", "friends": "UserUser",
        "activities": "ActAct",
    }  # fmt: skip
    return {name: np.asarray(arrays[key], np.float64) for name, key in names.items()}


def lastfm_tags(folder: str | os.PathLike[str]) -> dict[str, Relation]:
    """Return the Last.fm relations: tags (user × artist × tag) and plays (user × artist).

    Source: HetRec 2011, ``user_taggedartists.dat.gz`` and ``user_artists.dat.gz``. Tags are
    distinct triples; plays are listening counts of users and artists that also occur there.
    """
    with gzip.open(_file(folder, "user_taggedartists.dat.gz"), "rt") as file:
        triples = np.unique(np.loadtxt(file, skiprows=1, dtype=np.int64)[:, :3], axis=0)
    with gzip.open(_file(folder, "user_artists.dat.gz"), "rt") as file:
        plays = np.loadtxt(file, skiprows=1, dtype=np.int64)
    users, artists, tags = (np.unique(triples[:, mode]) for mode in range(3))
    indices = np.column_stack(
        [np.searchsorted(ids, triples[:, m]) for m, ids in enumerate((users, artists, tags))]
    )
    known = np.isin(plays[:, 0], users) & np.isin(plays[:, 1], artists)
    pairs = np.column_stack(
        [np.searchsorted(users, plays[known, 0]), np.searchsorted(artists, plays[known, 1])]
    )
    return {
        "tags": Relation.from_cells(
            ("user", "artist", "tag"), indices, zeros="observed",
            shape=(len(users), len(artists), len(tags)),
        ),
        "plays": Relation.from_cells(
            ("user", "artist"), pairs, plays[known, 2], zeros="observed",
            shape=(len(users), len(artists)),
        ),
    }  # fmt: skip


def lastfm_plays(folder: str | os.PathLike[str]) -> Relation:
    """Return which of 17,632 artists 1,892 users listened to, as ones.

    Source: HetRec 2011, ``user_artists.dat.gz``.
    """
    with gzip.open(_file(folder, "user_artists.dat.gz"), "rt") as file:
        table = np.loadtxt(file, skiprows=1, dtype=np.int64)
    return _numbered("artist", table[:, :2], np.ones(len(table)))


def movielens_20m(folder: str | os.PathLike[str]) -> Relation:
    """Return MovieLens 20M: ratings 0.5–5 of 26,744 films by 138,493 users.

    Source: Harper & Konstan (2015), ``ratings.csv``, perhaps with ``.gz``: a header, then userId,
    movieId, rating, timestamp. Users and films are numbered in order of their ids.
    """
    return _rated_pairs(folder, "ratings.csv", 1)


def libimseti(folder: str | os.PathLike[str], least: int = 140) -> Relation:
    """Return LibimSeTi: ratings 1–10 of profiles by users.

    Source: Brozovsky & Petricek (2007), ``ratings.dat``, perhaps with ``.gz``: user, profile and
    rating, comma between. Shin et al. (2018) keep profiles with more than 140 ratings.
    """
    found = _rated_pairs(folder, "ratings.dat", 0)
    counts = np.bincount(found.indices[:, 1], minlength=found.shape[1])
    kept = counts[found.indices[:, 1]] > least
    return _numbered("item", found.indices[kept], found.values[kept])


def _rated_pairs(folder: str | os.PathLike[str], name: str, header: int) -> Relation:
    """Return a table of user, item and rating."""
    packed = Path(folder) / f"{name}.gz"
    path = packed if packed.exists() else _file(folder, name)
    reader: Any = gzip.open if path.suffix == ".gz" else open
    with reader(path, "rt") as file:
        table = np.loadtxt(file, delimiter=",", skiprows=header, usecols=(0, 1, 2), ndmin=2)
    return _numbered("item", table[:, :2].astype(np.int64), table[:, 2])


def _numbered(item: str, pairs: Any, values: Any) -> Relation:
    """Return cells whose users and items are numbered in order of their ids."""
    users, items = (np.unique(pairs[:, k], return_inverse=True)[1].ravel() for k in (0, 1))
    shape = int(users.max()) + 1, int(items.max()) + 1
    return Relation.from_cells(
        ("user", item), np.column_stack([users, items]), values, shape=shape
    )


def movielens(folder: str | os.PathLike[str]) -> Relation:
    """Return MovieLens 100K: ratings 1–5 of 1,682 items by 943 users.

    Source: Harper & Konstan (2015), ``u.data.gz``.
    """
    with gzip.open(_file(folder, "u.data.gz"), "rt") as file:
        table = np.loadtxt(file, dtype=np.int64)
    return Relation.from_cells(("user", "item"), table[:, :2] - 1, table[:, 2], shape=(943, 1682))


def movielens_kinds(folder: str | os.PathLike[str]) -> Relation:
    """Return what is public of the 1,682 items: 19 genres, and decades since 1990, squared too.

    Source: Harper & Konstan (2015), ``u.item``; an item without a date counts as of 1995.
    """
    table = []
    with _file(folder, "u.item").open(encoding="latin-1") as file:
        for line in file:
            fields = line.rstrip("\n").split("|")
            decades = (float(fields[2][-4:] or 1995) - 1990.0) / 10.0
            table.append([*map(float, fields[5:]), decades, decades**2])
    return Relation.from_dense(("item", "kind"), np.array(table))


def movielens_large(folder: str | os.PathLike[str]) -> Relation:
    """Return MovieLens 1M or 10M: ratings of items by users, both numbered in order of their ids.

    Source: Harper & Konstan (2015), ``ratings.dat``, whose lines are
    ``user::item::rating::seconds``; 1M has whole ratings from 1 to 5, 10M half steps from 0.5.
    """
    return _ratings(*_columns(_table(_file(folder, "ratings.dat"), ":"), (0, 2, 4)))


def netflix(folder: str | os.PathLike[str]) -> Relation:
    """Return the Netflix Prize ratings, 1 to 5 of items by users, numbered in order of their ids.

    Source: Bennett & Lanning (2007): ``training_set/mv_*.txt``, one for each item, or
    ``combined_data_*.txt``. A line ``item:`` comes before that item's ``user,rating,date``.
    """
    files = sorted(Path(folder).glob("combined_data_*.txt"))
    files = files or sorted((Path(folder) / "training_set").glob("mv_*.txt"))
    if not files:
        raise ParameterError(
            f"there is no combined_data_1.txt and no training_set in {folder}: pass the folder "
            "that holds them"
        )
    import polars as pl

    parts = []
    for file in files:
        # whole lines first: one that names an item has one field, those that follow have three
        lines = pl.read_csv(file, has_header=False, separator="\t", infer_schema_length=0)
        parted = pl.col(lines.columns[0]).str.split_exact(",", 2)
        parted = parted.struct.rename_fields(["user", "rating", "date"])
        lines = lines.select(parted.alias("line")).unnest("line")
        item = pl.when(pl.col("rating").is_null()).then(pl.col("user").str.strip_suffix(":"))
        lines = lines.with_columns(item.forward_fill().alias("item"))
        lines = lines.filter(pl.col("rating").is_not_null())
        kinds = {"user": pl.Int64, "item": pl.Int64, "rating": pl.Float64}
        parts.append(lines.select([pl.col(name).cast(kind) for name, kind in kinds.items()]))
    return _ratings(*_columns(pl.concat(parts), (0, 1, 2)))


def digg(folder: str | os.PathLike[str]) -> dict[str, Relation]:
    """Return the Digg relations: diggs (user × story), and friends (user × friend) if listed.

    The crawl of the thesis (Lin et al. 2009) is not to be had. Sources that are: Hogg & Lerman
    (2012), ``digg_votes1.csv`` (date, user, story) and ``digg_friends.csv`` (mutual, date, user,
    friend), or its copy at KONECT, ``out.digg-votes`` (user, story, …). Votes that are listed
    twice count once. Users are those of both relations, in order of their ids.
    """
    home = Path(folder)
    if (konect := home / "out.digg-votes").exists():
        votes = np.loadtxt(konect, comments="%", usecols=(0, 1), dtype=np.int64, ndmin=2)
        links = np.empty((0, 2), np.int64)
    else:
        found = _table(_file(folder, "digg_votes1.csv"), ",")
        votes = np.column_stack(_columns(found, (1, 2))).astype(np.int64)
        friends = home / "digg_friends.csv"
        links = np.empty((0, 2), np.int64)
        if friends.exists():
            links = np.column_stack(_columns(_table(friends, ","), (2, 3))).astype(np.int64)
    users = np.unique(np.concatenate([votes[:, 0], links.ravel()]))
    stories = np.unique(votes[:, 1])
    relations = {"diggs": _links(("user", "story"), votes, (users, stories))}
    if len(links):
        relations["friends"] = _links(("user", "friend"), links, (users, users))
    return relations


def flickr(folder: str | os.PathLike[str]) -> dict[str, Relation]:
    """Return the Flickr relations: tags (user × image × tag), and features of images if there.

    The crawl of the thesis is not to be had. Any other one in the form in which tag assignments
    are published (Görlitz et al. 2008): ``tags.tsv`` or ``tags.tsv.gz``, tab-separated, whose last
    three columns are user, image and tag; ``features.tsv`` has an image and its numbers in a line.
    Members are numbered in the order of their names.
    """
    home = Path(folder)
    path = next((p for p in (home / "tags.tsv", home / "tags.tsv.gz") if p.exists()), None)
    if path is None:
        raise ParameterError(f"there is no tags.tsv in {folder}: pass the folder that holds it")
    table = _table(path, "\t", texts=True)
    columns = [table[name].to_numpy().astype(str) for name in table.columns[-3:]]
    members = [np.unique(column) for column in columns]
    entities = ("user", "image", "tag")
    cells = np.column_stack(
        [np.searchsorted(names, c) for names, c in zip(members, columns, strict=True)]
    )
    shape = tuple(map(len, members))
    tags = Relation.from_cells(entities, np.unique(cells, axis=0), zeros="observed", shape=shape)
    relations = {"tags": tags}
    if (home / "features.tsv").exists():
        found = _table(home / "features.tsv", "\t", texts=True)
        images = found[found.columns[0]].to_numpy().astype(str)
        known = np.isin(images, members[1])
        numbers = found.select(found.columns[1:]).to_numpy().astype(np.float64)
        dense = np.full((len(members[1]), numbers.shape[1]), np.nan)
        dense[np.searchsorted(members[1], images[known])] = numbers[known]
        relations["features"] = Relation.from_dense(("image", "feature"), dense)
    return relations


def _table(path: Path, separator: str, texts: bool = False) -> Any:
    """Return a table without header; a line of names at the top is left out."""
    import polars as pl

    first = gzip.open if path.suffix == ".gz" else open
    with first(path, "rt", encoding="utf-8") as file:
        head = file.readline()
    words = [word.strip().strip('"') for word in head.split(separator)]
    titled = not texts and not any(word.replace(".", "", 1).isdigit() for word in words)
    return pl.read_csv(path, has_header=False, separator=separator, skip_rows=int(titled),
                       infer_schema_length=None if not texts else 0)  # fmt: skip


def _columns(table: Any, positions: tuple[int, ...]) -> list[Any]:
    """Return columns by position: what they are called is Polars' own affair."""
    return [table[table.columns[k]].to_numpy() for k in positions]


def _ratings(users: Any, items: Any, values: Any) -> Relation:
    """Return ratings of members that are numbered in the order of their ids."""
    found = [np.unique(ids, return_inverse=True) for ids in (users, items)]
    cells = np.column_stack([number.ravel() for _, number in found])
    shape = len(found[0][0]), len(found[1][0])
    return Relation.from_cells(("user", "item"), cells, values, shape=shape)


def _links(entities: tuple[str, ...], pairs: Any, members: tuple[Any, ...]) -> Relation:
    """Return distinct links among members."""
    cells = [np.searchsorted(ids, pairs[:, m]) for m, ids in enumerate(members)]
    return Relation.from_cells(
        entities, np.unique(np.column_stack(cells), axis=0), zeros="observed",
        shape=tuple(map(len, members)),
    )  # fmt: skip


def filmtrust(folder: str | os.PathLike[str]) -> Relation:
    """Return the FilmTrust ratings, 0.5–4 in half steps; of a pair rated twice the last counts.

    Source: Guo et al. (2013), ``ratings.txt``. Users and items are numbered in order of their ids.
    """
    path = next((p for p in sorted(Path(folder).glob("ratings*"))), None)
    if path is None:
        raise ParameterError(f"there is no ratings.txt in {folder}: pass the folder that holds it")
    reader = gzip.open if path.suffix == ".gz" else open
    with reader(path, "rt") as file:
        table = np.loadtxt(file)
    users = np.unique(table[:, 0], return_inverse=True)[1].ravel()
    items = np.unique(table[:, 1], return_inverse=True)[1].ravel()
    last = {pair: k for k, pair in enumerate(zip(users.tolist(), items.tolist(), strict=True))}
    kept = np.array(sorted(last.values()))
    cells = np.column_stack([users[kept], items[kept]])
    shape = int(users.max()) + 1, int(items.max()) + 1  # as published with the data
    return Relation.from_cells(("user", "item"), cells, table[kept, 2], shape=shape)


def power_plant(folder: str | os.PathLike[str]) -> tuple[Any, Any, list[str]]:
    """Return the power-plant data: features (rows × 4), output in MW, names of the features.

    Source: Tüfekci (2014), UCI, ``Folds5x2_pp.csv``. Ambient temperature AT (°C), exhaust vacuum V
    (cm Hg), ambient pressure AP (mbar), relative humidity RH (%); the output is PE.
    """
    path = _file(folder, "Folds5x2_pp.csv")
    with path.open(encoding="utf-8-sig") as file:
        names = file.readline().strip().split(",")
        table = np.loadtxt(file, delimiter=",")
    return table[:, :-1], table[:, -1], names[:-1]


def bike_sharing(folder: str | os.PathLike[str]) -> tuple[Any, Any, list[str]]:
    """Return the hourly bike rentals: features (rows × 14), their total ``cnt``, names.

    Source: Fanaee-T & Gama (2013), UCI, ``hour.csv.gz``. The features are all columns but the
    running number, the date and the total; ``casual`` + ``registered`` is the total.
    """
    with gzip.open(_file(folder, "hour.csv.gz"), "rt") as file:
        names = file.readline().strip().split(",")
        columns = [k for k, name in enumerate(names) if name not in ("instant", "dteday")]
        table = np.loadtxt(file, delimiter=",", usecols=columns)
    return table[:, :-1], table[:, -1], [names[k] for k in columns[:-1]]


def kos(folder: str | os.PathLike[str]) -> tuple[Documents, list[str]]:
    """Return the KOS blog entries as bags of words, and the vocabulary.

    Source: Newman (2008), UCI, ``docword.kos.txt.gz`` and ``vocab.kos.txt``.
    """
    with gzip.open(_file(folder, "docword.kos.txt.gz"), "rt") as file:
        size, words, _ = (int(file.readline()) for _ in range(3))
        table = np.loadtxt(file, dtype=np.int64)
    from scipy.sparse import coo_array

    counts = coo_array((table[:, 2], (table[:, 0] - 1, table[:, 1] - 1)), shape=(size, words))
    vocabulary = _file(folder, "vocab.kos.txt").read_text(encoding="utf-8").split()
    return Documents.read(counts), vocabulary


def topic_moments(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the single-topic data of Imtiaz & Sarwate: documents by site, and the truth.

    ``"sites"``: documents of three words at each site; ``"topics"`` (5 × 10) and ``"weights"``,
    the truth; ``"second"`` and ``"third"``, the moments of the file, from the first pair and the
    one triple of every document, averaged over sites and not symmetrised.
    """
    from scipy.io import loadmat

    found = loadmat(_file(folder, "STM_data_K_5_D_10_N_100k.mat"))
    sites = [
        Documents.from_words(part.T.astype(np.int64) - 1, 10) for part in found["words"][:, 0]
    ]
    return {
        "sites": sites,
        "topics": np.asarray(found["mu"].T, np.float64),
        "weights": np.asarray(found["w"].ravel(), np.float64),
        "second": np.mean([np.asarray(m, float) for m in found["M2"][:, 0]], axis=0),
        "third": np.mean([np.asarray(m, float) for m in found["M3"][:, 0]], axis=0),
    }
