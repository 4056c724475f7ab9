"""What a row says of the upstream's site that was made for it, as SQL.

`provision.upstream_id` is the upstream's id of a site, and `provision.upstream_by` says which
attempt of which row had it made, for which domain. So a row that was copied, or made again under an
old id, speaks of no site as its own.
"""

from sqlalchemy import Text, and_, case, cast

from provisioning.schema import sites
from provisioning.stamps import STARTED, at

MADE_BY = at("provision,upstream_by,attempt")
MADE_FOR = at("provision,upstream_by,domain")
_MARKER = at("provision,upstream_by,marker")

OF_THIS_ROW = at("provision,upstream_by,site") == cast(sites.c.id, Text)
"""Whether what stands there was stamped for this very row."""

UPSTREAM_ID = case((OF_THIS_ROW, at("provision,upstream_id")))

_OF_THIS_ATTEMPT = and_(OF_THIS_ROW, MADE_BY == STARTED)

TO_TEAR_DOWN = (
    case((_OF_THIS_ATTEMPT, at("provision,upstream_id"))).label("upstream_id"),
    case((_OF_THIS_ATTEMPT, _MARKER)).label("upstream_marker"),
)
"""What this attempt had made: its id where it is known, and what it was marked with."""
