"""The arrays and sums of the live cluster, kept current by every call.

Begin reading in `plb.planning.live.live_state`.
"""
