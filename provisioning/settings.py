"""What the environment says. Secrets live here and nowhere that Prefect shows."""

from functools import cache
from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr, ValidationError, ValidationInfo

from provisioning.database_url import parameters, shown
from provisioning.errors import SettingsInvalid
from provisioning.http.urls import parsed
from provisioning.mapping import Mapping
from provisioning.outbox.signing import keys


def _postgres_url(secret: SecretStr) -> SecretStr:
    parameters(secret.get_secret_value())
    return secret


def _without_options(pooled: bool, info: ValidationInfo) -> bool:
    url: SecretStr | None = info.data.get("database_url")
    if pooled and url and "options" in parameters(url.get_secret_value()):
        raise ValueError(
            "a pooler takes no `options`: take them out of PROVISION_DATABASE_URL, and set what "
            "they say on the role (ALTER ROLE … SET …)"
        )
    return pooled


def _http_url(secret: SecretStr) -> SecretStr:
    if parsed(secret.get_secret_value()) is None:
        raise ValueError("not an http or https URL with a host")
    return secret


def _signing_keys(secret: SecretStr) -> SecretStr:
    try:
        keys(secret.get_secret_value())
    except ValueError as error:
        raise ValueError(
            f"{error}. It takes whsec_ and 24 to 64 bytes in base64, or whsk_ and an ed25519 key; "
            "several have blanks between"
        ) from None
    return secret


def _url_without_user(secret: SecretStr) -> SecretStr:
    target = parsed(_http_url(secret).get_secret_value())
    if target is not None and target.userinfo:
        raise ValueError("has a user part, which would take the place of the bearer token")
    return secret


def _bearer_token(secret: SecretStr) -> SecretStr:
    token = secret.get_secret_value().strip()
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise ValueError("not a bearer token: printable ASCII without spaces")
    return SecretStr(token)


def _health_url(template: str) -> str:
    if "{domain}" not in template or parsed(template.replace("{domain}", "shop.example")) is None:
        raise ValueError("not an http or https URL with {domain} in it")
    return template


WHERE_TO_SET_IT = (
    "Set it in the environment of this process, and never in the deployment, whose page shows it. "
    "A run on a process pool gets the environment of its worker; a run in a container gets what "
    "the work pool gives to the container, not what the worker has (docs/kubernetes.md)."
)


class Settings(Mapping):
    """The settings of a worker, each read from `PROVISION_` and its name."""

    database_url: Annotated[
        SecretStr,
        AfterValidator(_postgres_url),
        Field(description="The platform's database, as postgresql://user:password@host/database"),
    ]
    database_pooled: Annotated[
        bool,
        AfterValidator(_without_options),
        Field(description="That URL leads to a connection pooler, such as PgBouncer"),
    ] = False
    teardown_url: Annotated[
        Annotated[SecretStr, AfterValidator(_http_url)] | None,
        Field(description="Where the platform takes teardowns; none are owed where it is not set"),
    ] = None
    webhook_secret: Annotated[
        Annotated[SecretStr, AfterValidator(_signing_keys)] | None,
        Field(
            description="Signs the webhooks of sites that have no key of their own: whsec_… or "
            "whsk_…, several with blanks between; unsigned if it is not set"
        ),
    ] = None
    teardown_secret: Annotated[
        Annotated[SecretStr, AfterValidator(_signing_keys)] | None,
        Field(description="Signs teardowns and nothing else; unsigned if it is not set"),
    ] = None
    webhook_allow_private_networks: Annotated[
        bool, Field(description="For trials: merchants' URLs may lead to private addresses")
    ] = False
    egress_proxy: Annotated[
        Annotated[SecretStr, AfterValidator(_http_url)] | None,
        Field(description="The HTTP proxy through which this network gets out, if by no other way"),
    ] = None
    upstream_url: Annotated[
        Annotated[SecretStr, AfterValidator(_url_without_user)] | None,
        Field(description="The API that makes sites for the chain; the sweep does not need it"),
    ] = None
    upstream_token: Annotated[
        Annotated[SecretStr, AfterValidator(_bearer_token)] | None,
        Field(description="The bearer token of that API"),
    ] = None
    upstream_server: Annotated[
        str | None, Field(description="That API's id of the server on which sites are made")
    ] = None
    upstream_organization: Annotated[
        str | None,
        Field(description="Its organization; without one it is spoken to in Forge's first version"),
    ] = None
    health_url: Annotated[
        str,
        AfterValidator(_health_url),
        Field(description="Where the chain asks whether a site answers; {domain} is the site's"),
    ] = "https://{domain}/"

    @property
    def database_shown(self) -> str:
        """The database's name and host, as reports and the doctor name it."""
        return shown(self.database_url.get_secret_value())


def revealed(secret: SecretStr | None) -> str | None:
    """The value of a secret that may not be set, for whoever is about to use it."""
    return secret.get_secret_value() if secret else None


@cache
def settings() -> Settings:
    """The settings of this process, read once.

    Raises:
        SettingsInvalid: naming each variable that is missing or unusable.
    """
    try:
        return Settings()
    except ValidationError as error:
        problems = "; ".join(
            f"{_variable(problem['loc'][0])}: {problem['msg']}"
            for problem in error.errors(include_input=False, include_url=False)
        )
        raise SettingsInvalid(f"{problems}. {WHERE_TO_SET_IT}") from None


def _variable(field: int | str) -> str:
    """The environment variable of a field, which stands for an alias by itself."""
    return f"PROVISION_{str(field).upper().removeprefix('PROVISION_')}"
