"""How clients reach the service: HTTP, the line protocol, and the page for a browser.

Begin reading in `cluster.service.interfaces.operations`.
"""
