"""RunCloud's API on loopback, as far as a chain asks it. docs/upstreams.md names the sources."""

from typing import Any

from tests.chain.stub_server import StubServer

SERVER = "755"

SETTINGS: dict[str, Any] = {
    "user": 1647,
    "publicPath": "/public",
    "phpVersion": "php83rc",
    "stack": "hybrid",
    "stackMode": "production",
    "clickjackingProtection": True,
    "xssProtection": True,
    "mimeSniffingProtection": True,
    "processManager": "ondemand",
    "processManagerMaxChildren": 50,
    "processManagerMaxRequests": 500,
    "timezone": "UTC",
}


class RunCloudServer(StubServer):
    """The web applications of one server: a name and a domain each, and no status."""

    place = f"/api/v3/servers/{SERVER}/webapps"

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        if method == "POST" and path == f"{self.place}/custom":
            missing = {"name", "domainName", *SETTINGS} - set(body)
            if missing:
                return 422, {"message": "The given data was invalid.", "errors": list(missing)}
            for key in ("name", "domainName"):
                if any(app[key] == body[key] for app in self.sites):
                    return 422, {"message": f"The {key} has already been taken."}
            names = {key: body[key] for key in ("name", "domainName")}
            self.sites.append({"id": 646 + len(self.sites), **names})
            return 200, self.app(self.sites[-1])
        if method == "GET" and path == self.place:
            found = [app for app in self.sites if query.get("search", "") in app["name"]]
            pages = {"total": len(found), "count": len(found), "per_page": 20, "current_page": 1}
            return 200, {
                "data": [self.app(app) for app in found],
                "meta": {"pagination": pages | {"total_pages": 1, "links": {}}},
            }
        for app in self.sites:
            if method == "GET" and path == f"{self.place}/{app['id']}":
                return 200, self.app(app)
        return super().answer(method, path, query, body)

    def app(self, app: dict[str, Any]) -> Any:
        root = f"/home/runcloud/webapps/{app['name']}"
        return {
            "id": app["id"],
            "server_user_id": 1647,
            "name": app["name"],
            "rootPath": root,
            "publicPath": f"{root}/public",
            "phpVersion": "php83rc",
            "stack": "hybrid",
            "stackMode": "production",
            "type": "custom",
            "defaultApp": False,
            "alias": None,
            "created_at": "2024-07-17 01:40:41",
        }
