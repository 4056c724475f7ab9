"""`alembic` without a checkout: `python -m provisioning.migrations upgrade head`."""

import sys
from pathlib import Path

from alembic.config import main

if __name__ == "__main__":
    main(["--config", str(Path(__file__).with_name("alembic.ini")), *sys.argv[1:]])
