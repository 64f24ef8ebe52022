"""Ready-made extension constraints; an engine gets them as objects, such as ``LeastDomains({"db": 3})``.

Begin reading in `plb.rules.least_domains`.
"""

from plb.rules.least_domains import LeastDomains
from plb.rules.same_domain import SameDomain

__all__ = ["LeastDomains", "SameDomain"]
