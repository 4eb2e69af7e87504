#!/usr/bin/env python3
"""A misbehaving remote homeserver on 127.0.0.1, for portcullis' tests. Standard library only.

usage: stall.py MODE [--port N] [--tls-dir DIR] [--interval S] [--size BYTES] [--seconds S]
                     [--log FILE] [--well-known NAME] [--file-bytes N]

  never-answer   accepts TCP, reads, sends nothing: the TLS handshake never ends
  tls-silent     finishes TLS, reads the request, never answers
  tls-drip       finishes TLS, then one byte of the status line and headers every --interval s
  body-drip      sends headers of a good answer, then one byte of its body every --interval s
  huge-body      a 200 with --size bytes of JSON string (no Content-Length, as fast as it is read)
  gzip-bomb      the same, as gzip: about 1000 times smaller on the wire
  truncate       promises a body, sends half of it, closes
  not-json       a 200 with an HTML page
  redirect-loop  a 307 to itself under a new path, for ever
  429            with Retry-After and M_LIMIT_EXCEEDED      500   with M_UNKNOWN
  reset          reads the request, then a TCP reset
  ok             well-formed small answers: the healthy fake to compare with
(accept-and-never-answer, tls-then-drip and headers-then-drip-body name the 1st, 3rd and 4th too.)

Prints {"port", "server_name", "stats_port", "ca", ...} as one JSON line when it listens. An HTTP
GET to stats_port answers counters as JSON: connections accepted / open / max_open, TLS handshakes
done, requests, bytes sent. --log writes one JSON line per request ("-" is stderr). Certificates
come from --tls-dir (made by `mkcert` if missing; default: a temporary one). --well-known NAME
answers /.well-known/matrix/server with NAME whatever the mode. --file-bytes makes the files of a
healthy answer that large (default: ten bytes). Ends by itself after --seconds
(default 600), or on SIGTERM/SIGINT, printing the counters as its last line.
"""
import argparse, asyncio, json, logging, os, shutil, signal, socket, ssl, struct, subprocess, sys, tempfile, time, zlib
from pathlib import Path
from urllib.parse import urlsplit

MODES = ("never-answer tls-silent tls-drip body-drip huge-body gzip-bomb truncate not-json "
         "redirect-loop 429 500 reset ok").split()
LONG_NAMES = {"accept-and-never-answer": "never-answer", "tls-then-drip": "tls-drip", "headers-then-drip-body": "body-drip"}
stats = {"accepted": 0, "open": 0, "max_open": 0, "tls_done": 0, "requests": 0, "bytes_sent": 0}


def good_answer(path, host, file):
    """(content type, body) of what a healthy server would say to the requests a proxy makes."""
    if path.startswith("/_matrix/media/"):
        return "text/plain", file
    if "/media/" in path:
        return "multipart/mixed; boundary=pc", (
            b"--pc\r\nContent-Type: application/json\r\n\r\n{}\r\n--pc\r\nContent-Type: text/plain\r\n"
            b"Content-Disposition: inline; filename=note.txt\r\n\r\n" + file + b"\r\n--pc--\r\n")
    if "/query/directory" in path:
        body = {"room_id": f"!room:{host}", "servers": [host]}
    elif "/publicRooms" in path:
        body = {"chunk": [{"room_id": f"!room:{host}", "name": "Room", "num_joined_members": 1, "world_readable": False,
                           "guest_can_join": False, "join_rule": "public"}], "total_room_count_estimate": 1}
    elif path.endswith("/version"):
        body = {"server": {"name": "stall", "version": "1"}}
    else:
        return None, b'{"errcode":"M_UNRECOGNIZED","error":"Unrecognized request"}'
    return "application/json", json.dumps(body).encode()


def head(status, ctype="application/json", length=None, extra=()):
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {ctype}", *extra]
    lines.append("Connection: close" if length is None else f"Content-Length: {length}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


class Remote:
    def __init__(self, args):
        self.a, self.tls = args, None
        self.file = bytes(args.file_bytes) if args.file_bytes else b"portcullis"
        self.log = sys.stderr if args.log == "-" else open(args.log, "a", buffering=1) if args.log else None

    async def serve(self, reader, writer):
        stats["accepted"] += 1
        stats["open"] += 1
        stats["max_open"] = max(stats["max_open"], stats["open"])
        try:
            if self.a.mode == "never-answer":
                while await reader.read(65536):
                    pass
            else:
                await writer.start_tls(self.tls, ssl_handshake_timeout=60)
                stats["tls_done"] += 1
                if self.a.mode == "tls-drip":
                    await self.drip(writer, head("200 OK", length=2) + b"{}")
                while await self.one(reader, writer):
                    pass
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError, asyncio.CancelledError):
            pass                # the other side went away or spoke nonsense, or we are ending
        finally:
            stats["open"] -= 1
            writer.transport.abort() if self.a.mode == "reset" else writer.close()

    async def send(self, writer, data):
        if writer.transport.is_closing():       # or it would be written to for ever: nothing raises
            raise ConnectionResetError
        writer.write(data)
        stats["bytes_sent"] += len(data)
        await writer.drain()

    async def drip(self, writer, data):
        for b in data:
            await self.send(writer, bytes([b]))
            await asyncio.sleep(self.a.interval)

    async def one(self, reader, writer):
        """One request; true when the connection may carry another."""
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = lines[0].split(" ", 2)
        headers = [l.split(": ", 1) for l in lines[1:] if ": " in l]
        get = {k.lower(): v for k, v in headers}
        body = await reader.readexactly(min(int(get.get("content-length", 0)), 1 << 20))
        stats["requests"] += 1
        if self.log:
            self.log.write(json.dumps({"t": round(time.time(), 3), "method": method, "path": target,
                                       "headers": headers, "body": body.decode("utf-8", "replace")}) + "\n")
        mode, host = self.a.mode, get.get("host", "localhost")
        path = urlsplit(target).path
        ctype, good = good_answer(path, host, self.file)
        if path == "/.well-known/matrix/server" and self.a.well_known:
            answer = json.dumps({"m.server": self.a.well_known}).encode()
            await self.send(writer, head("200 OK", length=len(answer)) + answer)
            return True
        if mode == "tls-silent":
            await reader.read()
        elif mode == "body-drip":
            await self.send(writer, head("200 OK", ctype or "application/json", len(good)))
            await self.drip(writer, good)
        elif mode in ("huge-body", "gzip-bomb"):
            kind = ctype or "application/json"
            start = good[:good.rindex(self.file)] if "/media/" in path else b'{"chunk":["'
            pack = zlib.compressobj(9, wbits=31) if mode == "gzip-bomb" else None
            await self.send(writer, head("200 OK", kind, extra=["Content-Encoding: gzip"] if pack else ()))
            left, block = self.a.size, b"a" * 65536
            while left > 0:
                data = start + block
                left, start = left - len(data), b""
                data = pack.compress(data) if pack else data
                if data:
                    await self.send(writer, data)
        elif mode == "truncate":
            await self.send(writer, head("200 OK", ctype or "application/json", len(good)) + good[:len(good) // 2])
        elif mode == "redirect-loop":
            hop = int(path.rsplit("/", 1)[1]) + 1 if path.startswith("/hop/") else 1
            await self.send(writer, head("307 Temporary Redirect", length=0, extra=[f"Location: https://{host}/hop/{hop}"]))
            return True
        elif mode == "reset":
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            status, extra = "200 OK", ()
            if mode == "429":
                status, extra = "429 Too Many Requests", ["Retry-After: 30"]
                ctype, good = "application/json", b'{"errcode":"M_LIMIT_EXCEEDED","error":"slow down","retry_after_ms":30000}'
            elif mode == "500":
                status, ctype, good = "500 Internal Server Error", "application/json", b'{"errcode":"M_UNKNOWN","error":"broken"}'
            elif mode == "not-json":
                ctype, good = "text/html", b"<!doctype html><title>hello</title>"
            elif ctype is None:
                status, ctype = "404 Not Found", "application/json"
            await self.send(writer, head(status, ctype, len(good), extra) + good)
            return True
        return False


async def tell(reader, writer):
    try:
        await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
        body = json.dumps(stats).encode()
        writer.write(head("200 OK", length=len(body), extra=["Connection: close"]) + body)
        await writer.drain()
    except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError):
        pass
    finally:
        writer.close()


async def main(args):
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)     # it tells of each peer that goes away
    tls_dir = Path(args.tls_dir)
    subprocess.run([Path(__file__).resolve().parent / "mkcert", tls_dir], check=True)
    remote = Remote(args)
    remote.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    remote.tls.load_cert_chain(tls_dir / "leaf.crt", tls_dir / "leaf.key")
    remote.tls.set_alpn_protocols(["http/1.1"])
    server = await asyncio.start_server(remote.serve, "127.0.0.1", args.port, backlog=4096, limit=1 << 17)
    side = await asyncio.start_server(tell, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    print(json.dumps({"mode": args.mode, "port": port, "server_name": f"localhost:{port}",
                      "stats_port": side.sockets[0].getsockname()[1], "ca": str((tls_dir / "ca.crt").absolute())}), flush=True)
    stop = asyncio.Event()
    for s in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(s, stop.set)
    try:
        await asyncio.wait_for(stop.wait(), args.seconds)
    except asyncio.TimeoutError:
        pass
    try:
        os.write(1, (json.dumps(stats) + "\n").encode())
    except OSError:
        pass                    # whoever started us reads no more


p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("mode", choices=MODES, type=lambda m: LONG_NAMES.get(m, m))
p.add_argument("--port", type=int, default=0)
p.add_argument("--tls-dir")
p.add_argument("--interval", type=float, default=5)
p.add_argument("--size", type=int, default=1 << 30)
p.add_argument("--seconds", type=float, default=600)
p.add_argument("--log")
p.add_argument("--well-known")
p.add_argument("--file-bytes", type=int, default=0)
args = p.parse_args()
made = None if args.tls_dir else tempfile.mkdtemp(prefix="portcullis-stall-")
args.tls_dir = args.tls_dir or made
try:
    asyncio.run(main(args))
finally:
    if made:
        shutil.rmtree(made, ignore_errors=True)
