"""A trial: Forge's API on loopback, which makes no site and remembers none.

For `provision-site/on-demand` in the local stack. A site is ready five seconds after it was asked
for. A domain that begins with `fail` comes to fail, and one that begins with `slow` never ends.
"""

from __future__ import annotations

import argparse
import json
import socket
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

TOKEN, ORGANIZATION, SERVER = "trial", "trial", "1"

MAKING_SECONDS = 5.0

_SITES = ["api", "orgs", ORGANIZATION, "servers", SERVER, "sites"]
_ONE = ["api", "orgs", ORGANIZATION, "sites"]


def free_port() -> int:
    """A port on loopback that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment(port: int) -> dict[str, str]:
    """What a worker needs to provision here."""
    url = f"http://127.0.0.1:{port}"
    return {
        "PROVISION_UPSTREAM_URL": f"{url}/api",
        "PROVISION_UPSTREAM_TOKEN": TOKEN,
        "PROVISION_UPSTREAM_ORGANIZATION": ORGANIZATION,
        "PROVISION_UPSTREAM_SERVER": SERVER,
        "PROVISION_HEALTH_URL": f"{url}/visit/{{domain}}",
    }


@dataclass
class Trial:
    """The sites, by their ids, which no later start uses again."""

    sites: dict[str, dict[str, Any]] = field(default_factory=dict)
    first_id: int = field(default_factory=lambda: int(time.time()))

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """The status and the document for one request."""
        parts = unquote(path).strip("/").split("/")
        if method == "POST" and parts == _SITES:
            return self._create(body)
        if parts == _SITES:
            return 200, {
                "data": [self._resource(site) for site in self.sites.values()],
                "included": [
                    {"id": tag, "type": "tags", "attributes": {"name": tag}}
                    for site in self.sites.values()
                    for tag in site["tags"]
                ],
            }
        if parts[:-1] == _ONE and parts[-1] in self.sites:
            return 200, {"data": self._resource(self.sites[parts[-1]])}
        if parts[0] == "visit":
            ready = any(
                site["name"] == parts[-1] and self._status(site) == "never-deployed"
                for site in self.sites.values()
            )
            return (200 if ready else 502), {}
        return 404, {"message": "There is nothing of that name in this trial."}

    def _create(self, body: Any) -> tuple[int, Any]:
        if any(site["name"] == body["name"] for site in self.sites.values()):
            return 422, {"message": "The name has already been taken."}
        id_ = str(self.first_id + len(self.sites))
        self.sites[id_] = {
            "id": id_,
            "name": body["name"],
            "tags": body["tags"],
            "asked_at": time.monotonic(),
        }
        return 202, {"data": self._resource(self.sites[id_])}

    def _resource(self, site: dict[str, Any]) -> Any:
        tags = [{"type": "tags", "id": tag} for tag in site["tags"]]
        return {
            "id": site["id"],
            "type": "sites",
            "attributes": {"name": site["name"], "status": self._status(site)},
            "relationships": {"tags": {"data": tags}},
        }

    def _status(self, site: dict[str, Any]) -> str:
        made = time.monotonic() - site["asked_at"] >= MAKING_SECONDS
        if not made or site["name"].startswith("slow"):
            return "installing"
        return "failed" if site["name"].startswith("fail") else "never-deployed"


def serve(port: int) -> None:
    """Answer on loopback until the process is ended."""
    trial = Trial()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._respond(None)

        def do_POST(self) -> None:
            length = int(self.headers.get("content-length", 0))
            self._respond(json.loads(self.rfile.read(length)))

        def _respond(self, body: Any) -> None:
            status, document = trial.answer(self.command, urlsplit(self.path).path, body)
            content = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("content-type", "application/vnd.api+json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m deployments.trial_upstream")
    parser.add_argument("--port", type=int, required=True)
    serve(parser.parse_args().port)
