"""The engine's server or a client of it, taken over: sends what it is told to, and tells replies.

``python rogue_engine.py ADDRESS KIND …``, then the arguments of the engine's own program. KIND is
``server``, ``client``, or ``welcoming``: a server that lets anybody in, a negative control. Orders
come over the local socket ADDRESS; each is answered with the text of what came back, or None.
"""

import contextlib
import sys
import threading
from multiprocessing.connection import Client

from nvflare.apis.shareable import Shareable
from nvflare.private.admin_defs import Message
from nvflare.private.defs import new_cell_message


def payload_of(order):
    """Return what to send, in the form that the channel takes."""
    if order["form"] == "admin":
        message = Message(topic=order["topic"], body=order["body"])
        message.set_headers(order["headers"])
        return message
    if order["form"] == "shareable":
        found = Shareable()
        found["content"] = order["body"]
        return found
    return order["body"]


def send(cell, order):
    """Send one message; return all of the reply as text."""
    reply = cell.send_request(
        channel=order["channel"], topic=order["topic"], target=order["target"],
        request=new_cell_message(order["headers"], payload_of(order)),
        timeout=order["timeout"], optional=True,
    )  # fmt: skip
    body = reply.payload
    headers = {name: str(value) for name, value in reply.headers.items()}
    if isinstance(body, Message):
        return str((body.topic, body.body, body.headers, headers))
    return str((body, headers))


def obey(cell, address):
    """Take orders until there are no more."""
    with Client(address) as orders, contextlib.suppress(EOFError, OSError):
        while True:
            order = orders.recv()
            try:
                orders.send(send(cell, order))
            except Exception as error:
                orders.send(f"{type(error).__name__}: {error}")


def take_over(owner, method, address):
    """Have orders obeyed once the engine's cell is there."""
    original = getattr(owner, method)

    def taken(self, *arguments, **options):
        found = original(self, *arguments, **options)
        threading.Thread(target=obey, args=(self.cell, address), daemon=True).start()
        return found

    setattr(owner, method, taken)


def welcome_anybody():
    """Take callers in whatever they show, and also those who do not even speak TLS."""
    import socket
    import ssl

    from nvflare.fuel.f3.drivers.socket_conn import SocketConnection

    from tacit.federation import driver

    def finish_request(self, request, client_address):
        secure = request.recv(1, socket.MSG_PEEK) == b"\x16"
        if secure:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.files[1], self.files[2])
            request = context.wrap_socket(request, server_side=True)
        connection = SocketConnection(request, self.connector, secure)
        self.driver.add_connection(connection)
        connection.read_loop()
        self.driver.close_connection(connection)

    driver.Server.finish_request = finish_request


if __name__ == "__main__":
    address, kind = sys.argv.pop(1), sys.argv.pop(1)
    if kind == "client":
        from nvflare.private.fed.app.client import client_train as engine
        from nvflare.private.fed.client.client_engine import ClientEngine

        take_over(ClientEngine, "initialize_comm", address)
    else:
        from nvflare.private.fed.app.server import server_train as engine
        from nvflare.private.fed.server.admin import FedAdminServer

        if kind == "welcoming":
            welcome_anybody()
        take_over(FedAdminServer, "__init__", address)
    args = engine.parse_arguments()
    sys.exit(engine.mpm.run(engine.main, run_dir=args.workspace, args=args))
