"""Laravel Forge on loopback, in both versions of its API. docs/upstreams.md names the sources."""

from typing import Any

from tests.chain.stub_server import LOST, TOKEN, Spoilt, StubServer

__all__ = ["LOST", "ORGANIZATION", "SERVER", "TOKEN", "ForgeServer", "ForgeV1Server", "Spoilt"]

SERVER = "12"
ORGANIZATION = "acme"

REQUIRED = ("type", "domain_mode", "name", "www_redirect_type", "allow_wildcard_subdomains")


class ForgeServer(StubServer):
    """Today's: scoped by organization, JSON:API, cursor pages, tags."""

    place = f"/api/orgs/{ORGANIZATION}/servers/{SERVER}/sites"
    one = f"/api/orgs/{ORGANIZATION}/sites/"

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        if method == "POST" and path == self.place:
            return self.create(body)
        if method == "GET" and path == self.place:
            return 200, self.page(query)
        for site in self.sites:
            if path == f"{self.one}{site['id']}":
                return 200, {"data": self.resource(site, self.now())}
        return super().answer(method, path, query, body)

    def create(self, body: Any) -> tuple[int, Any]:
        missing = {
            name: [f"The {name} field is required."] for name in REQUIRED if name not in body
        }
        if missing:
            return 422, {"message": "The given data was invalid.", "errors": missing}
        if any(site["name"].lower() == body["name"].lower() for site in self.sites):
            message = "The name has already been taken."
            return 422, {"message": message, "errors": {"name": [message]}}
        self.sites.append(
            {"id": 100 + len(self.sites), "name": body["name"], "tags": body.get("tags") or []}
        )
        return 202, {"data": self.resource(self.sites[-1], "installing")}

    def page(self, query: dict[str, str]) -> Any:
        """A page of the sites whose name has the filter in it, with their tags where asked for."""
        wanted = query.get("filter[name]", "").lower()
        found = [site for site in self.sites if wanted in site["name"].lower()]
        start, size = int(query.get("page[cursor]", "0")), int(query.get("page[size]", "30"))
        shown = found[start : start + size]
        more = start + size < len(found)
        return {
            "data": [self.resource(site, site.get("status", "installing")) for site in shown],
            "included": [
                {"id": tag, "type": "tags", "attributes": {"name": tag}}
                for site in shown
                for tag in site.get("tags", [])
                if query.get("include") == "tags"
            ],
            "links": {"first": None, "last": None, "prev": None, "next": None},
            "meta": {
                "path": self.place,
                "per_page": size,
                "next_cursor": str(start + size) if more else None,
                "prev_cursor": None,
            },
        }

    def resource(self, site: dict[str, Any], status: Any) -> Any:
        tags = [{"type": "tags", "id": tag} for tag in site.get("tags", [])]
        return {
            "id": str(site["id"]),
            "type": "sites",
            "attributes": {
                "name": site["name"],
                "status": status,
                "url": f"https://{site['name']}",
                "user": "forge",
                "aliases": None,
                "deployment_status": None,
                "created_at": "2025-07-29T09:00:00.000000Z",
            },
            "relationships": {"tags": {"data": tags}},
            "links": {"self": {"href": f"{self.url}{self.one}{site['id']}"}},
        }


class ForgeV1Server(StubServer):
    """The first version: scoped by server, one list, nothing to mark a site with."""

    place = f"/api/v1/servers/{SERVER}/sites"

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        if method == "POST" and path == self.place:
            if any(site["name"].lower() == body["domain"].lower() for site in self.sites):
                return 422, {"domain": ["The domain has already been taken."]}
            self.sites.append({"id": 100 + len(self.sites), "name": body["domain"]})
            return 200, {"site": self.sites[-1] | {"status": "installing", "directory": "/public"}}
        if method == "GET" and path == self.place:
            return 200, {"sites": [{"status": "installing"} | site for site in self.sites]}
        for site in self.sites:
            if path == f"{self.place}/{site['id']}":
                return 200, {"site": site | {"status": self.now()}}
        return super().answer(method, path, query, body)
