"""An agent hands parts of its work to two others.

The planner runs a flight desk and a hotel desk as sub-agents. Each sees only the part of the payload that it is given,
and brings back only what it may: `upstream` names it. Both are runs of their own, below the planner's:

    agentreplay tree @last
    agentreplay blame run1 /flight
"""

from __future__ import annotations

from typing import Any

import agentreplay as ar

FLIGHTS = {"Lisbon": [{"number": "TP 571", "price": 148.0}, {"number": "LH 1166", "price": 131.5}]}
HOTELS = {"Lisbon": [{"name": "Casa do Rio", "price": 96.0}, {"name": "Miradouro", "price": 120.0}]}

START: dict[str, Any] = {"city": "Lisbon", "day": "2026-12-04", "nights": 2, "customer": "C-104"}


@ar.tool(safety="pure")
def find_flights(city: str, day: str) -> list[dict[str, Any]]:
    """Look up the flights to a city on a day."""
    return FLIGHTS[city]


@ar.tool(safety="pure")
def find_hotels(city: str) -> list[dict[str, Any]]:
    """Look up the hotels of a city, with their price per night."""
    return HOTELS[city]


def cheapest(offers: list[dict[str, Any]]) -> dict[str, Any]:
    """The offer with the lowest price."""
    return min(offers, key=lambda offer: float(offer["price"]))


@ar.agent("flight-desk")
def flight_desk(round_index: int, context: ar.Context) -> ar.Complete[str]:
    """A sub-agent that finds a flight."""
    flight = cheapest(find_flights(context.payload["city"], context.payload["day"]))
    context.change(new={"flight": flight, "searched": True}, reason="the cheapest of the day")
    return ar.Complete(flight["number"])


@ar.agent("hotel-desk")
def hotel_desk(round_index: int, context: ar.Context) -> ar.Complete[str]:
    """A sub-agent that finds a hotel."""
    hotel = cheapest(find_hotels(context.payload["city"]))
    context.change(new={"hotel": hotel}, reason="the cheapest in town")
    return ar.Complete(hotel["name"])


@ar.agent("trip", max_rounds=5)
def step(round_index: int, context: ar.Context) -> ar.NextStep:
    """One round: have the next thing found that is missing, or add up what it costs."""
    payload = context.payload
    if "flight" not in payload:
        context.run_agent(flight_desk, downstream=["city", "day"], upstream=["flight.*"])
        return ar.NextStep(step="Sub-Agent", sub_agent={"name": "flight-desk"}, reasoning="How do we get there?")
    if "hotel" not in payload:
        context.run_agent(hotel_desk, downstream=["city"], upstream=["hotel.*"])
        return ar.NextStep(step="Sub-Agent", sub_agent={"name": "hotel-desk"}, reasoning="Where do we stay?")
    total = payload["flight"]["price"] + payload["nights"] * payload["hotel"]["price"]
    context.change(new={"total": total}, reason="flight and nights")
    return ar.NextStep(step="Success", message=f"{payload['flight']['number']} and {payload['hotel']['name']}: {total}")


def main() -> None:
    """Plan a trip."""
    result = step.run(START)
    print(f"{result.run.id} planned {result.value}")


if __name__ == "__main__":
    main()
