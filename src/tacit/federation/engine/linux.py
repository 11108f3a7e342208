"""What Linux offers for a wall: namespaces, mounts, privileges, and who is at a socket.

Only the standard library is used, so that a process can wall itself in before it loads anything
else: a user namespace can only be entered while there is one thread. Elsewhere than on Linux
every function that builds a wall raises `OSError`, which callers take as "not possible here".
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import socket
import struct
import sys
from pathlib import Path

__all__ = [
    "become_subreaper",
    "die_with_parent",
    "drop_capabilities",
    "enter_user_namespace",
    "forgo_privileges",
    "leave_network",
    "mount",
    "network_is_empty",
    "peer_user",
    "pivot_root",
    "protect_mount",
    "unmount",
]

# <linux/sched.h>
NEW_MOUNTS, NEW_CGROUP, NEW_UTS = 0x00020000, 0x02000000, 0x04000000
NEW_IPC, NEW_USER, NEW_PID, NEW_NETWORK = 0x08000000, 0x10000000, 0x20000000, 0x40000000
# <sys/mount.h>
BIND, RECURSIVE, PRIVATE, NO_SUID, NO_DEVICES, NO_EXECUTION = 4096, 16384, 1 << 18, 2, 4, 8
_DETACH = 2
# <linux/mount.h>: of mount_setattr, whose number is the same on all architectures
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE = 442, -100, 0x8000
_PROTECTED = 0x1 | 0x2 | 0x4  # read-only, no set-user-ID programs, no devices
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "ppc64le": 203, "s390x": 217}
# <linux/prctl.h>
_DEATH_SIGNAL, _BOUNDING_DROP, _SUBREAPER, _NO_NEW_PRIVILEGES = 1, 24, 36, 38
# <linux/capability.h>: rights over files that root has, and needs to read its own data
_CAPABILITY_VERSION = 0x20080522
FILES = (0, 1, 2, 3)  # CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER


def _call(name: str, *arguments: object) -> int:
    """Call the C library; raise what it reports."""
    function = getattr(ctypes.CDLL(None, use_errno=True), name, None)
    if sys.platform != "linux" or function is None:
        raise OSError(errno.ENOSYS, f"{name} exists on Linux only")
    found = function(*arguments)
    if found == -1:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return int(found)


def _prctl(option: int, value: int) -> None:
    zero = ctypes.c_ulong(0)
    _call("prctl", option, ctypes.c_ulong(value), zero, zero, zero)


def forgo_privileges() -> None:
    """Let neither this process nor its children gain privileges by running a program."""
    _prctl(_NO_NEW_PRIVILEGES, 1)


def die_with_parent(signal: int, parent: int) -> None:
    """Have the kernel send a signal when the thread that started this process is gone.

    Parameters
    ----------
    signal
        Which one.
    parent
        The process that started this one; if it is gone already this one ends at once.
    """
    _prctl(_DEATH_SIGNAL, int(signal))
    if os.getppid() not in (0, parent):  # 0: it lives outside of our PID namespace
        os._exit(1)


def become_subreaper() -> None:
    """Have orphans among this process's descendants become its children."""
    _prctl(_SUBREAPER, 1)


def drop_capabilities(keep: tuple[int, ...] = ()) -> None:
    """Give up all capabilities but some, for this process and for what it runs."""
    for capability in range(64):
        if capability not in keep:
            try:
                _prctl(_BOUNDING_DROP, capability)
            except OSError:  # not known here, or nothing to drop
                continue
    mask = sum(1 << capability for capability in keep)
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    _call("capset", header, struct.pack("=6I", low, low, 0, high, high, 0))


def enter_user_namespace(more: int, *, user: int | None = None, group: int | None = None) -> None:
    """Enter a new user namespace, and others with it.

    Parameters
    ----------
    more
        Further namespaces, as flags.
    user, group
        What the caller is called inside; as outside unless given.
    """
    outside, outside_group = os.geteuid(), os.getegid()
    _call("unshare", NEW_USER | more)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{outside if user is None else user} {outside} 1")
    inside = outside_group if group is None else group
    Path("/proc/self/gid_map").write_text(f"{inside} {outside_group} 1")


def network_is_empty(tables: Path = Path("/proc/self/net")) -> bool:
    """Return whether nothing leads out of a network namespace, and nothing in it listens.

    Parameters
    ----------
    tables
        Where the kernel tells; where it tells nothing a network is not taken to be empty.
    """
    if not (tables / "route").exists() or not (tables / "tcp").exists():
        return False
    for name, interface in (("route", 0), ("ipv6_route", -1)):
        table = tables / name
        lines = table.read_text().splitlines() if table.exists() else []
        routes = [line.split() for line in lines if not line.startswith("Iface")]
        if any(route[interface] != "lo" for route in routes if route):
            return False
    sockets = [tables / name for name in ("tcp", "tcp6", "udp", "udp6", "raw", "raw6")]
    return all(len(table.read_text().splitlines()) <= 1 for table in sockets if table.exists())


def leave_network() -> None:
    """Move to an empty network namespace; raise `OSError` where this one cannot be left.

    With privileges a namespace is made as it is, so that root keeps its rights over files;
    without, together with a user namespace. A process that was started in an empty one (by
    systemd's ``PrivateNetwork`` or a container without network) has nothing to leave.
    """
    try:
        try:
            _call("unshare", NEW_NETWORK)
        except OSError:
            enter_user_namespace(NEW_NETWORK)
    except OSError:
        if not network_is_empty():
            raise
    if not network_is_empty():
        raise OSError(errno.EPERM, "the network namespace is not empty")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Mount; as mount(2)."""
    _call(
        "mount",
        source.encode(),
        target.encode(),
        kind.encode() or None,
        ctypes.c_ulong(flags),
        options.encode() or None,
    )


def protect_mount(target: str, *, recursive: bool = True) -> None:
    """Make a mount, and those below, read-only, without devices or set-user-ID programs."""
    attributes = struct.pack("=4Q", _PROTECTED, 0, 0, 0)
    flags = _AT_RECURSIVE if recursive else 0
    size = ctypes.c_size_t(len(attributes))
    _call("syscall", _MOUNT_SETATTR, _AT_FDCWD, target.encode(), flags, attributes, size)


def unmount(target: str) -> None:
    """Detach a mount."""
    _call("umount2", target.encode(), _DETACH)


def pivot_root(new: str, old: str) -> None:
    """Change the root of this mount namespace."""
    number = _PIVOT_ROOT.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, f"pivot_root is not known on {platform.machine()}")
    _call("syscall", number, new.encode(), old.encode())


def peer_user(connection: socket.socket) -> int:
    """Return the Unix user at the other end of a local socket, as the kernel knows it."""
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, "SO_PEERCRED exists on Linux only")
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("=3i"))
    return int(struct.unpack("=3i", found)[1])
