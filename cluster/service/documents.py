"""Documents: what clients and the service exchange as objects of JSON; `plb` makes and reads them."""

from __future__ import annotations

from plb.model.documents import Document, check_list, check_object, fields_of, plain, read
from plb.model.plan import moves_of, of_move, of_plan, plan_of
from plb.model.rules import Violation

__all__ = [
    "Document",
    "check_list",
    "check_object",
    "fields_of",
    "moves_of",
    "of_move",
    "of_plan",
    "of_violation",
    "plain",
    "plan_of",
    "read",
]

of_violation = Violation.to_dict
"""Returns the document of a violation, in numbers and in words."""
