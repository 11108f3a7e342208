"""Code that looks around: what it finds where it runs, within a sandbox or without.

``python -m experiments._hostile.probe JSON``, as whatever user starts it: an engine that was
taken over. ``way`` names the sandbox (None: there is none), ``show`` lists what a weakened one
shows too, ``targets`` what to go for. Prints what each attempt got; None where it got nothing. A
job that ships `LOOK` does the same where jobs run.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys

from tacit.federation.engine.isolation import WAYS, make_plan, outer_environment

LOOK = """
import ctypes, json, os, socket, sys

def content(path):
    with open(path, "rb") as file:
        return file.read(100_000).decode(errors="replace")

def write(folder):
    path = folder + "/planted"
    with open(path, "w") as file:
        file.write("x")
    os.remove(path)
    return "written"

def connect(path):
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(path)
        return "connected"

def namespace():
    if ctypes.CDLL(None, use_errno=True).unshare(0x10000000):
        raise OSError("no")
    return "made"

def leave(path):
    with open(path, "a") as file:
        file.write("ran\\n")
    return "left"

def look(targets):
    got = {}

    def attempt(name, action):
        try:
            got[name] = action()
        except Exception as error:
            got[name] = None

    for path in targets["files"]:
        attempt("read " + path, lambda: content(path))
    for folder in targets["folders"]:
        attempt("list " + folder, lambda: os.listdir(folder))
    for folder in targets["installed"]:
        attempt("write " + folder, lambda: write(folder))
    for path in targets.get("ran", ()):
        attempt("leave " + path, lambda: leave(path))
    process = targets["process"]
    attempt("signal", lambda: os.kill(process, 0) or "signalled")
    for name in ("environ", "cmdline", "maps"):
        attempt("process " + name, lambda: content(f"/proc/{process}/{name}"))
    for name in ("root", "cwd"):
        attempt("process " + name, lambda: os.listdir(f"/proc/{process}/{name}/"))
    attempt("connect", lambda: connect(targets["socket"]))
    everybody = [p for p in os.listdir("/proc") if p.isdigit()]
    for one in everybody:
        attempt("everybody " + one, lambda: content(f"/proc/{one}/environ"))
    attempt("kernel", lambda: open("/proc/sys/kernel/core_pattern", "r+").close() or "written")
    attempt("namespace", namespace)
    for name in ("mountinfo", "mounts", "cmdline", "environ"):
        attempt("own " + name, lambda: content(f"/proc/self/{name}"))
    attempt("own fd", lambda: [os.readlink(f"/proc/self/fd/{k}") for k in (0, 1, 2)])
    got["processes"] = len(everybody)
    got["root"] = sorted(os.listdir("/"))
    got["environment"] = sorted(os.environ)
    got["descriptors"] = len(os.listdir("/proc/self/fd"))
    return got
"""
_PRINT = LOOK + "print(json.dumps(look(json.loads(sys.argv[1]))))"


def main(asked: dict) -> None:
    words: list[str] = []
    if asked["way"] is not None:
        plan = make_plan()
        shown = tuple((path, path) for path in asked["show"])
        plan = dataclasses.replace(plan, read=plan.read + shown)
        words = next(way for way in WAYS if way.name == asked["way"]).wrap(plan, ())
    environment = outer_environment() if words else dict(os.environ)
    command = [*words, sys.executable, "-c", _PRINT, json.dumps(asked["targets"])]
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, check=False)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
