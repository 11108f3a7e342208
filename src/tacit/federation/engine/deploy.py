"""Three ways to run a site with its wall, written into its folder: command, systemd, containers.

Every site's folder gets ``deploy/`` with a pair of systemd units, a compose file with two services
and a page that says which lines go into ``site.toml`` for each.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["COMPOSE", "compose_file", "data_unit", "engine_unit", "write_forms"]

COMPOSE = {"data": 1001, "engine": 1002, "door": 1003}  # users and the group between them

_TACIT = "/opt/tacit/bin/tacit"
_HARDENED = """NoNewPrivileges=yes
CapabilityBoundingSet=
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
PrivateIPC=yes
ProtectProc=invisible
ProtectControlGroups=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectClock=yes
ProtectHostname=yes
RestrictNamespaces=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
UMask=0077
KillMode=control-group
Restart=on-failure
RestartSec=10"""


def _door(site: str) -> str:
    """Return the group that holds the two users, in the letters that groups may have."""
    return f"tacit-{site.lower()}"


def data_unit(site: str) -> str:
    """Return the systemd unit of a site's data process.

    >>> "PrivateNetwork=yes" in data_unit("North")
    True
    """
    return f"""[Unit]
Description=tacit: data, ledger, keys and policy of {site}, without network

[Service]
Type=exec
User=tacit-data
# the group of the door: it holds tacit-data and tacit-engine, and nobody else
Group={_door(site)}
ExecStart={_TACIT} site /var/lib/tacit/{site}/site.toml
RuntimeDirectory=tacit/{site}
RuntimeDirectoryMode=0750
ReadWritePaths=/var/lib/tacit/{site}
# with [network] allow = […] in site.toml take these two lines away
PrivateNetwork=yes
RestrictAddressFamilies=AF_UNIX
{_HARDENED}

[Install]
WantedBy=multi-user.target
"""


def engine_unit(site: str) -> str:
    """Return the systemd unit of a site's engine.

    >>> "InaccessiblePaths=/var/lib/tacit/North" in engine_unit("North")
    True
    """
    return f"""[Unit]
Description=tacit: the engine of {site}, with network and without data
Requires=tacit-site-{site}.service
After=network-online.target tacit-site-{site}.service
Wants=network-online.target

[Service]
Type=exec
User=tacit-engine
Group=tacit-engine
SupplementaryGroups={_door(site)}
ExecStart={_TACIT} engine /var/lib/tacit-engine/{site}/kit --socket /run/tacit/{site}/site.sock
StateDirectory=tacit-engine/{site}
StateDirectoryMode=0700
InaccessiblePaths=/var/lib/tacit/{site}
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
{_HARDENED}

[Install]
WantedBy=multi-user.target
"""


def compose_file(site: str) -> str:
    """Return a compose file: one service without network, one without data.

    >>> "network_mode: none" in compose_file("North")
    True
    """
    data, engine, door = COMPOSE["data"], COMPOSE["engine"], COMPOSE["door"]
    return f"""# {site}: two containers, one socket between them. The image has tacit[federation].
services:
  data:
    image: ${{TACIT_IMAGE:-tacit}}
    command: [tacit, site, /site/site.toml]
    user: "{data}:{door}"
    network_mode: none  # with [network] allow = […] in site.toml give it that network only
    read_only: true
    cap_drop: [ALL]
    security_opt: ["no-new-privileges:true"]
    tmpfs: [/tmp, /site/kit]  # the kit is the engine's
    volumes:
      - ..:/site
      - door:/run/tacit
    restart: on-failure
  engine:
    image: ${{TACIT_IMAGE:-tacit}}
    command: [tacit, engine, /kit, --socket, /run/tacit/site.sock]
    user: "{engine}:{door}"
    read_only: true
    cap_drop: [ALL]
    security_opt: ["no-new-privileges:true"]
    tmpfs: [/tmp]
    volumes:
      - ../kit:/kit
      - door:/run/tacit
    depends_on: [data]
    restart: on-failure
volumes:
  door:
    driver: local
    driver_opts: {{type: tmpfs, device: tmpfs, o: "uid={data},gid={door},mode=0750"}}
"""


def _page(site: str) -> str:
    return f"""{site}: the process with the data has no network, the process with the network has
no data. Three ways; in each of them `tacit site site.toml --policy` is the page to read and sign.

1. One command, one Unix user (Linux with bubblewrap or user namespaces)

       tacit site site.toml

   It finds the strongest isolation by trying, says which, and refuses where there is none.

2. Two Unix users, by systemd

   As root, with tacit in /opt/tacit and the site's folder copied to /var/lib/tacit/{site}:

       useradd --system tacit-data
       useradd --system tacit-engine
       groupadd --system {_door(site)}
       usermod -aG {_door(site)} tacit-data
       usermod -aG {_door(site)} tacit-engine
       install -d -o tacit-engine -m 0700 /var/lib/tacit-engine/{site}
       mv /var/lib/tacit/{site}/kit /var/lib/tacit-engine/{site}/kit
       chown -R tacit-engine: /var/lib/tacit-engine/{site}
       chown -R tacit-data: /var/lib/tacit/{site}
       chmod -R go= /var/lib/tacit/{site}
       cp deploy/tacit-*-{site}.service /etc/systemd/system/

   First lines of site.toml:

       engine = "user:tacit-engine"
       socket = "/run/tacit/{site}/site.sock"

       systemctl enable --now tacit-site-{site} tacit-engine-{site}

   Without systemd: run `tacit site` as the one user, and as the other the command that it prints.

3. Two containers: compose.yaml here, with an image that has tacit[federation]

   First lines of site.toml:

       engine = "user:{COMPOSE["engine"]}"
       socket = "/run/tacit/site.sock"

       chown -R {COMPOSE["data"]} .. && chown -R {COMPOSE["engine"]} ../kit && chmod -R go= ..
       docker compose up
"""


def write_forms(folder: Path, site: str) -> None:
    """Write all three into a site's folder.

    Parameters
    ----------
    folder
        The site's folder, with ``site.toml`` and ``kit``.
    site
        Its name.
    """
    place = folder / "deploy"
    place.mkdir(mode=0o700)
    for name, content in {
        "README.txt": _page(site),
        f"tacit-site-{site}.service": data_unit(site),
        f"tacit-engine-{site}.service": engine_unit(site),
        "compose.yaml": compose_file(site),
    }.items():
        (place / name).write_text(content, encoding="utf-8")
