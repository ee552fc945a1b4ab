"""The payload: how a change request becomes a new payload, and what differs between two."""
