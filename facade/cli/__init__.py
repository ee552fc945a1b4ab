"""The command line: `agentreplay VERB`."""
