"""Python processes that tests start run as at a user's, without the libraries of the tests: kio brings Hypothesis in
where it is installed, 0.15 s of each process."""

import sys

sys.modules["hypothesis"] = None  # type: ignore[assignment]
