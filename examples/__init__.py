"""Small agents that run without a network; `agentreplay demo` runs one of them."""
