"""The contract of a chain as SQL, with the platform's own names, for any other language."""

from importlib.resources import files
from string import Template

from provisioning.mapping import MAPPING
from provisioning.schema import notices, sites, sql_name, terminal_failures


def contract() -> str:
    """The statements of `contract.sql` on this platform's table.

    Their binds, such as `:site_id`, are the only colons before a letter, but for the casts: no
    parser of placeholders takes anything else for one.
    """
    gone = MAPPING.sites_deleted_at
    names = {
        "sites": sql_name(sites),
        "id": sql_name(MAPPING.sites_id),
        "domain": sql_name(MAPPING.sites_domain),
        "metadata": sql_name(MAPPING.sites_metadata),
        "present": f" AND {sql_name(gone)} IS NULL" if gone else "",
        "terminal_failures": sql_name(terminal_failures),
        "notices": sql_name(notices),
    }
    text = files(__package__).joinpath("contract.sql").read_text("utf-8")
    return Template(text).substitute(names)
