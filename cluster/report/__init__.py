"""The report: one page of HTML about a results directory."""
