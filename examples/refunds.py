"""A support agent that works a refund through, and gets it wrong.

Run it with `python examples/refunds.py`, or `agentreplay demo`. Nothing here needs a network: the model is a script
that reads the payload and answers as a language model would, with a decision in JSON. It makes one mistake. In step 7
it takes a coupon off an order's total that was paid with the coupon already. Nothing breaks then; the refund is
refused two steps later, where the cause is no longer in sight. That is what a debugger is for:

    agentreplay diff @last --step 7

And once it is found, the run is taken up again from there, with what was missing:

    agentreplay rerun @last --step 7 --set /order/coupon/used=true --allow issue_refund
"""

from __future__ import annotations

import json
from typing import Any

import agentreplay as ar

ORDERS = {
    "A-17": {
        "id": "A-17",
        "customer": "C-104",
        "items": [
            {"sku": "LAMP-2", "name": "Desk lamp", "price": 95.5, "quantity": 1},
            {"sku": "BULB-9", "name": "Bulb", "price": 17.0, "quantity": 2},
        ],
        "coupon": {"code": "SPRING", "percent": 40},
        "total": 129.5,
    }
}
CUSTOMERS = {"C-104": {"id": "C-104", "name": "Acme GmbH", "tier": "gold", "refunds_this_year": 1}}
POLICIES = {"damaged": {"reason": "damaged", "window_days": 60, "refund": "price", "needs_inspection": True}}

START: dict[str, Any] = {"order_id": "A-17", "request": "The desk lamp arrived broken. I want my money back."}


class RefundRejected(Exception):
    """The payment service does not accept a refund."""


@ar.tool(safety="pure")
def lookup_order(order_id: str) -> dict[str, Any]:
    """Read an order."""
    return ORDERS[order_id]


@ar.tool(safety="pure")
def lookup_customer(customer_id: str) -> dict[str, Any]:
    """Read a customer."""
    return CUSTOMERS[customer_id]


@ar.tool(safety="pure")
def find_policy(reason: str) -> dict[str, Any]:
    """Find the refund policy for a reason."""
    return POLICIES[reason]


@ar.tool(safety="irreversible", raises=(RefundRejected,))
def issue_refund(order_id: str, amount: float, paid: float) -> dict[str, Any]:
    """Pay money back."""
    if amount > paid:
        raise RefundRejected(f"a refund of {amount:.2f} is more than the {paid:.2f} that was paid for {order_id}")
    return {"receipt": f"R-{order_id}", "amount": amount}


@ar.model(model="scripted-1")
def ask(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Answer like a language model would: with the text of a decision, decided by what the payload holds so far."""
    payload = json.loads(messages[-1]["content"])
    decision = inspect_goods(payload) if "photos" in payload else next_decision(payload)
    text = json.dumps(decision)
    usage = {"input_tokens": sum(len(message["content"]) for message in messages) // 4, "output_tokens": len(text) // 4}
    return {"role": "assistant", "content": text, "usage": usage}


def next_decision(payload: dict[str, Any]) -> dict[str, Any]:
    """The script: the first thing that is still missing is what to do next."""
    order = payload.get("order")
    if order is None:
        return action("lookup_order", {"order_id": payload["order_id"]}, "order", "The request names an order.")
    if "customer" not in payload:
        return action("lookup_customer", {"customer_id": order["customer"]}, "customer", "Who is asking?")
    if "reason" not in payload:
        return change("The customer says that it arrived broken.", newElements={"reason": "damaged"})
    if "policy" not in payload:
        return action("find_policy", {"reason": payload["reason"]}, "policy", "What do we owe for damaged goods?")
    if "inspection" not in payload:
        return {"step": "Sub-Agent", "subAgent": {"name": "inspector"}, "reasoning": "The policy asks for one."}
    if "refund" not in payload:
        broken = payload["inspection"]["broken"]
        amount = sum(item["price"] * item["quantity"] for item in order["items"] if item["sku"] in broken)
        refund = {"items": broken, "amount": amount}
        return change("The policy refunds the price of what is broken.", newElements={"refund": refund})
    if "totals_checked" not in payload:
        return check_totals(order)
    if "reply" not in payload:
        text = f"Dear {payload['customer']['name']}, we refund {payload['refund']['amount']:.2f} for your lamp."
        return change("Tell the customer before the money moves.", newElements={"reply": text})
    if "receipt" not in payload and "problem" not in payload:
        arguments = {"order_id": order["id"], "amount": payload["refund"]["amount"], "paid": order["total"]}
        return action("issue_refund", arguments, "receipt", "Everything is settled: pay.")
    if "problem" in payload:
        return {"step": "Failed", "errorMessage": payload["problem"], "reasoning": "The payment service refused."}
    return {"step": "Success", "message": payload["reply"], "reasoning": "The refund was paid.", "terminate": True}


def check_totals(order: dict[str, Any]) -> dict[str, Any]:
    """Here is the mistake: the total was paid with the coupon, and the model takes it off once more.

    It cannot know better, since the order does not say so. Had it `"used": true` with the coupon, all would be well.
    """
    coupon = order.get("coupon")
    if coupon is None or coupon.get("used"):
        return change("There is no coupon to take off: the total stands.", newElements={"totals_checked": True})
    total = round(order["total"] * (100 - coupon["percent"]) / 100, 2)
    return change(
        f"The coupon {coupon['code']} takes {coupon['percent']} % off the total.",
        newElements={"totals_checked": True},
        updateElements={"order": {"total": total}},
    )


def inspect_goods(payload: dict[str, Any]) -> dict[str, Any]:
    """What the inspector's model says: what the photos show."""
    broken = [photo["sku"] for photo in payload["photos"] if "crack" in photo["shows"]]
    return change("One photo shows a crack.", newElements={"inspection": {"broken": broken, "confidence": 0.93}})


def action(name: str, params: dict[str, Any], save_as: str, reasoning: str) -> dict[str, Any]:
    """A decision to call a tool and keep its result in the payload."""
    return {"step": "Actions", "actions": [{"name": name, "params": params, "saveAs": save_as}], "reasoning": reasoning}


def change(reasoning: str, **sections: Any) -> dict[str, Any]:
    """A decision that changes the payload and goes on."""
    return {"step": "Retry", "reasoning": reasoning, "payloadChangeRequest": {**sections, "reasoning": reasoning}}


TOOLS = {fn.__name__: fn for fn in (lookup_order, lookup_customer, find_policy, issue_refund)}


def consult(context: ar.Context, instruction: str) -> dict[str, Any]:
    """Put the payload before the model and read its decision."""
    if not context.messages:
        context.messages.append({"role": "system", "content": instruction})
    context.messages.append({"role": "user", "content": json.dumps(context.payload)})
    answer = ask(messages=list(context.messages))
    context.messages.append({"role": "assistant", "content": answer["content"]})
    decision: dict[str, Any] = json.loads(answer["content"])
    return decision


@ar.agent("inspector", max_rounds=3)
def inspector(round_index: int, context: ar.Context) -> ar.Complete[dict[str, Any]]:
    """A sub-agent with a payload of its own: it looks at photos and says what is broken."""
    decision = consult(context, "Say which articles are broken.")
    found = decision["payloadChangeRequest"]["newElements"]
    context.change(new=found, reason=decision["reasoning"])
    return ar.Complete(found["inspection"])


@ar.agent("refunds", max_rounds=20)
def step(round_index: int, context: ar.Context) -> ar.NextStep:
    """One round: ask the model what to do, do it, keep what came of it."""
    decision = consult(context, "Work the request through. Answer with one decision in JSON.")
    for call in decision.get("actions", []):
        try:
            result = TOOLS[call["name"]](**call["params"])
        except RefundRejected as error:
            context.change(new={"problem": str(error)}, reason="the refund was refused")
        else:
            context.change(new={call["saveAs"]: result}, reason=decision["reasoning"])
    if decision["step"] == "Sub-Agent":
        photos = [{"sku": "LAMP-2", "shows": "a crack along the stem"}, {"sku": "BULB-9", "shows": "two bulbs, intact"}]
        context.run_agent(inspector, {"photos": photos}, upstream=["inspection.*"])
    return ar.NextStep(**decision)


def main() -> None:
    """Run the agent on the order that goes wrong."""
    result = step.run(START)
    print(f"{result.run.id} ended with {result.stop_reason}: {result}")


if __name__ == "__main__":
    main()
