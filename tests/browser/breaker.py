"""
A proxy in front of the service that breaks connections where a test wants it. Playwright's set_offline() leaves open streams alone;
here the stream itself is cut, at a byte and not at a time, so that a busy machine changes nothing.
"""

import contextlib
import re
import socket
import struct
import threading


class Breaker:
    """Listens on `port`. cut(pattern, after, times): a reply to a request whose first line matches is cut, by a reset, when
    @after bytes of it have passed; so many @times. `cuts` counts those that happened."""

    def __init__(self, target):
        self._target, self._lock = target, threading.Lock()
        self._rule, self._left, self.cuts = None, 0, 0
        self._sockets, self._threads = [], []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._start(self._accept)

    def cut(self, pattern, after, times=1):
        with self._lock:
            self._rule, self._left, self.cuts = (re.compile(pattern), after), times, 0

    def close(self):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in list(self._sockets):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in list(self._threads):
            thread.join()

    def _start(self, what, *arguments):
        thread = threading.Thread(target=what, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._start(self._serve, client)

    def _serve(self, client):
        state = {"room": None}  # bytes that may still pass; None: all
        with client, contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._target)) as server:
            self._sockets += [client, server]
            back = threading.Thread(target=self._back, args=(server, client, state), daemon=True)
            back.start()
            with contextlib.suppress(OSError):
                while piece := client.recv(65536):
                    self._look(piece, state)
                    server.sendall(piece)
            for one in (server, client):
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
            back.join()

    def _look(self, piece, state):
        """A browser sends the next request on a connection when it has the whole reply to the one before."""
        line = piece.split(b"\r\n", 1)[0].decode("latin-1")
        if not line.endswith("HTTP/1.1"):
            return
        with self._lock:
            matches = self._rule and self._left > 0 and self._rule[0].search(line)
            state["room"] = self._rule[1] if matches else None
            self._left -= bool(matches)

    def _back(self, server, client, state):
        with contextlib.suppress(OSError):
            while piece := server.recv(65536):
                room = state["room"]
                if room is None or len(piece) < room:
                    client.sendall(piece)
                    state["room"] = None if room is None else room - len(piece)
                    continue
                client.sendall(piece[:room])
                with self._lock:
                    self.cuts += 1
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                break
        for one in (server, client):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
