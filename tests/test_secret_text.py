"""Secrets in texts: found by their looks and by what they are assigned to, and nothing else touched."""

from __future__ import annotations

import json
import re

import pytest
from agentreplay.recorder.redaction import TOKEN, Redactor
from hypothesis import given
from hypothesis import strategies as st

REDACTOR = Redactor(b"k" * 32)

# Put together here, so that no scanner takes this file for a leak.
LOOKS = {
    "age-identity": "AGE-SECRET" + "-KEY-1" + "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7LQPZRY9X8GF2TVDW0S3JN54KHCE",
    "anthropic-key": "sk-" + "ant-api03-" + "a1" * 20,
    "atlassian-token": "ATATT" + "3xFfGF0" + "b" * 24,
    "aws-key-id": "AKIA" + "IOSFODNN7EXAMPLE",
    "cerebras-key": "csk-" + "c" * 40,
    "databricks-token": "dapi" + "0a" * 16,
    "digitalocean-token": "dop_" + "v1_" + "0b" * 32,
    "doppler-token": "dp" + ".pt." + "Ab1" * 14,
    "fireworks-key": "fw" + "_" + "04GhJk2GGf7GK4CAqmNUhedF",
    "github-token": "gh" + "p_" + "d" * 36,
    "gitlab-token": "glpat" + "-" + "e" * 20,
    "google-api-key": "AIza" + "f" * 35,
    "google-client-secret": "GOCSPX" + "-" + "g" * 28,
    "google-oauth-token": "ya29" + "." + "h" * 40,
    "grafana-token": "glsa" + "_" + "i" * 32,
    "groq-key": "gsk" + "_" + "j" * 40,
    "hugging-face-token": "hf" + "_" + "k" * 34,
    "jwt": "eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJ" + "zdWIiOiIxMjM0In0" + "." + "l" * 43,
    "langsmith-key": "lsv2" + "_pt_" + "m" * 32,
    "linear-key": "lin" + "_api_" + "n" * 40,
    "mailgun-key": "key" + "-" + "0a" * 16,
    "notion-token": "ntn" + "_" + "o" * 40,
    "npm-token": "npm" + "_" + "p" * 36,
    "nvidia-key": "nvapi" + "-" + "q" * 40,
    "openai-key": "sk-" + "proj-" + "r" * 40,
    "openrouter-key": "sk-" + "or-v1-" + "0c" * 32,
    "perplexity-key": "pplx" + "-" + "s" * 40,
    "pinecone-key": "pcsk" + "_" + "t" * 40,
    "pypi-token": "pypi" + "-AgEIcHlwaS5vcmc" + "u" * 40,
    "replicate-token": "r8" + "_" + "v" * 37,
    "sendgrid-key": "SG" + "." + "w" * 22 + "." + "x" * 43,
    "shopify-token": "shpat" + "_" + "0d" * 16,
    "slack-token": "xoxb" + "-1234567890-" + "y" * 24,
    "stripe-key": "sk" + "_live_" + "z" * 24,
    "supabase-token": "sbp" + "_" + "0e" * 20,
    "tavily-key": "tvly" + "-dev-" + "A" * 32,
    "telegram-token": "123456789" + ":AA" + "B" * 33,
    "twilio-key": "SK" + "0f" * 16,
    "vault-token": "hvs" + "." + "C" * 24,
    "webhook-secret": "whsec" + "_" + "D" * 32,
    "xai-key": "xai" + "-" + "E" * 40,
    "private-key": "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEowIBAAKC\nabc=\n-----END RSA " + "PRIVATE KEY-----",
}
PLACES = [
    "{}",
    "use {} now",
    "a={}",
    "({})",
    '"{}"',
    "key:{},",
    "\n{}\n",
    "https://x.example/?q={}&page=2",
    "é{}é",
    "{}.",
]


def redact(text: str) -> str:
    """Redact, and check on the way what holds for every text."""
    out = REDACTOR.redact_text(text)
    assert REDACTOR.redact_text(out) == out
    assert out is text or not REDACTOR.is_clean(json.dumps(text, ensure_ascii=False).encode())
    return out


def kinds(text: str) -> list[str]:
    return TOKEN.findall(redact(text))


# -- by their looks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", LOOKS)
def test_a_secret_is_known_by_its_looks_wherever_it_stands(kind: str, place: str) -> None:
    """Only the secret is replaced; the text around it stays."""
    before, after = place.split("{}")

    out = redact(before + LOOKS[kind] + after)

    assert re.fullmatch(re.escape(before) + r"\[redacted:" + kind + r":[0-9a-f]{16}\]" + re.escape(after), out)


@pytest.mark.parametrize(
    ("text", "secret", "kind"),
    [
        ("postgres://bob:{}@db.example:5432/app", "p4ss-w0rd", "url-password"),
        ("redis://:{}@cache/0", "hunter2", "url-password"),
        ("https:\\/\\/bob:{}@host\\/path", "hunter2", "url-password"),
        ("https://hooks.slack.com/services/{}", "T00000000/B00000000/" + "F" * 24, "slack-webhook"),
        ("https://discord.com/api/webhooks/12345678/{}", "G" * 60, "discord-webhook"),
        ("https://a.blob.example/c?sv=2022&sig={}&se=1", "H" * 30 + "%3D", "url-signature"),
        ("https://b.s3.example/k?X-Amz-Signature={}", "0a" * 32, "url-signature"),
        ("Bearer {}", "a1" * 10, "bearer-token"),
        ("Basic {} x", "dXNlcjpwYXNz", "basic-credentials"),
    ],
)
def test_only_the_secret_part_of_an_address_or_header_is_replaced(text: str, secret: str, kind: str) -> None:
    """Scheme, user, host and the other parameters stay readable."""
    before, after = text.split("{}")

    out = redact(text.replace("{}", secret))

    assert out.startswith(before + f"[redacted:{kind}:")
    assert out.endswith("]" + after)


def test_a_private_key_that_is_cut_off_is_replaced_too() -> None:
    """The output of a tool may end in the middle of a key."""
    text = "-----BEGIN " + "PRIVATE KEY-----\n" + "A" * 64 + "\n" + "B" * 64 + "\nCCC"

    assert kinds(text) == ["private-key"]
    assert "AAA" not in redact(text)
    assert "CCC" not in redact(text)


def test_a_needle_does_not_hide_the_needle_behind_it() -> None:
    """What looks like the beginning of one secret may touch the next."""
    assert [kinds(f"{text}{LOOKS['private-key']}") for text in ("xai", "glpat", "sk", "xai-")] == [["private-key"]] * 4


def test_a_private_key_may_be_escaped() -> None:
    """In a JSON text its line ends are written as escapes."""
    text = json.dumps(json.dumps({"pem": LOOKS["private-key"]}))

    assert kinds(text) == ["private-key"]
    assert "MIIE" not in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "a" * 64,
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
        "commit 5f0c9a1be3d24c77d3b8f8e2a1c4b5d6e7f80912",
        "id 0190f7c2-6d7a-7cc1-a3b5-1d2e3f4a5b6c",
        "task-1 risk-free disk-usage sk-learn sk-fading-circle ask-me",
        "task-123e4567-e89b-12d3-a456-426614174000 disk-123e4567e89b12d3a456426614174000",
        "https://x.io/disk-usage-monitoring-for-kubernetes-2024 git checkout risk-engine-refactoring-step-2",
        "docker pull desk-booking-service-v2-backend:1 and sk-learn-pipeline-with-a-long-name-1",
        "see https://example.com:8080/a@b and mail bob@example.com, git@github.com:a/b.git",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "a file with '-----BEGIN RSA " + "PRIVATE KEY-----' in its first line",
        "eyJ is how base64 of JSON begins",
        "npm_config_registry npm_package_version hf_hub_download SK-II",
        "basic knowledge of Basic authentication and bearer tokens",
        "sk-ssh-ed25519@openssh.com",
        "AGE-SECRET-KEY-1 is how an age identity begins, dp.st.update(), dp.pt.x, dp.pt.some_attribute_of_a_long_name",
        "fw_UpdateDownloadControllerV2 fw_version_2024_release_candidate fw_d41d8cd98f00b204e9800998ecf8427e",
        "cache-key-d41d8cd98f00b204e9800998ecf8427e key-d41d8cd9 key-d41d8cd9-8f00-b204-e980-0998ecf8427e",
        "machine learning login page password reset; the machine example.com login failed, password expired",
        "https://{user}:{password}@host https://user:${PASSWORD}@host https://user:***@host",
    ],
)
def test_what_only_looks_random_is_no_secret(text: str) -> None:
    """Base64, hashes, identifiers and words that begin like a key stay."""
    assert redact(text) is text


# -- by what they are assigned to --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Authorization: Bearer {}", "authorization"),
        ("authorization: Token {}\nHost: x", "authorization"),
        ("Proxy-Authorization: Basic {}", "authorization"),
        ("Authorization: {}", "authorization"),
        ("curl -H 'Authorization: Bearer {}' https://x.example", "authorization"),
        ('curl -H "X-API-Key: {}" https://x.example', "api-key"),
        ("https://x.example/?api_key={}&page=2", "api-key"),
        ("page=2&access_token={}", "token"),
        ("password={}", "password"),
        ("user=bob password={} host=x", "password"),
        ("export DB_PASSWORD={}", "password"),
        ("HOME=/root\nOPENAI_API_KEY={}\nLANG=C", "api-key"),
        ("aws_secret_access_key = {}\nregion = x", "secret-key"),
        ("password: {}\nuser: bob", "password"),
        ("- token: {}", "token"),
        ("user: bob, password: {}", "password"),
        ("client_secret: {} is what I used", "secret"),
        ('api_key = "{}"', "api-key"),
        ("Client(api_key='{}', timeout=3)", "api-key"),
        ('password: str = "{}"', "password"),
        ("{'password': '{}', 'user': 'bob'}", "password"),
        ("b'authorization': b'{}'", "authorization"),
        ('HTTP body: {"api_key": "{}", "n": 1} (200)', "api-key"),
        ('said {\\"api_key\\": \\"{}\\", \\"n\\": 1} twice', "api-key"),
        ('said {\\\\\\"api_key\\\\\\": \\\\\\"{}\\\\\\"} thrice', "api-key"),
        ('cut off {"api_key": "{}', "api-key"),
        ('log: {"name": "Authorization", "value": "{}"}', "authorization"),
        ("[('Authorization', '{}')]", "authorization"),
        ("login --password {} --user bob", "password"),
        ("login --password='{}'", "password"),
        ('run(["--api-key", "{}"])', "api-key"),
        ("<password>{}</password>", "password"),
        ("Server=x;AccountKey={};EndpointSuffix=y", "secret-key"),
        ("DRIVER=x;UID=sa;PWD={}", "password"),
    ],
)
def test_what_is_assigned_to_a_secret_name_is_a_secret(text: str, kind: str) -> None:
    """In headers, addresses, environments, code, JSON, escaped JSON and command lines; the rest of the text stays."""
    before, after = text.split("{}")

    # A redactor of its own: in one that knows the secret, it has the kind under which it was met first.
    out = Redactor(b"k" * 32).redact_text(before + "hunter2x" + after)

    assert out == redact(out) == before + f"[redacted:{kind}:94332492cbf258a9]" + after


@pytest.mark.parametrize(
    ("text", "out"),
    [
        ("Cookie: a=b; c=d\nHost: x", "Cookie: [redacted:cookie:e8f73c2626697039]\nHost: x"),
        ("curl -H 'Cookie: a=b; c=d' x", "curl -H 'Cookie: [redacted:cookie:e8f73c2626697039]' x"),
    ],
)
def test_all_of_a_cookie_header_is_secret(text: str, out: str) -> None:
    """Every cookie may be the session's."""
    assert redact(text) == out


@pytest.mark.parametrize(
    "text",
    [
        "the token: it is used for",
        "see the notes on the password: read-only of the form, or the token: case-sensitive.",
        "Set your password: it must be long",
        "a password, a secret and a token",
        "the token count: 12 tokens",
        "max_tokens=512&top_p=1",
        "token = lexer.next()",
        "token = tokens[i]",
        "if token == 'x1y2z3':",
        "f(token=token, password=db_password, secret=self.secret)",
        "password: string;\ntoken: Token\napi_key: Optional[str] = None",
        'api_key = os.environ["API_KEY"]',
        "api_key=os.getenv('API_KEY')",
        'password = getpass("Password: ")',
        'print("token: ", value)',
        "TOKEN=$(cat token.txt) PASSWORD=${PASSWORD} KEY=$API_KEY",
        'f"Bearer {token}" Authorization: Bearer <token>',
        'password: "<your password>" api_key="YOUR_API_KEY" token: "***"',
        '{"password": null, "token": true, "secret": ""',
        "use --token to pass it",
        "arn:aws:secretsmanager:eu-west-1:1:secret:prod/db-1a2b3c",
        "PWD=/home/bob\nOLDPWD=/",
        "std::token: x1y2z3",
        '<a accesskey="n" href="next.html">',
        "self._cookies: dict[str, Cookie] = {}, use_cookies: bool = True",
        "the password is required, and the token is case-sensitive",
        "the password is base64-encoded; the token is expired! Your password is: wrong.",
        "sort -u bob:x1y2z3 | docker run -p 8080:80 --user 1000:1000",
        "mysql -u root; ls -print0",
        "curl -u bob:$PASSWORD https://h; curl -u 'bob:<password>' https://h",
        "pass: 12, fail: 3, pass=True, bypass=x1y2z3w4, pass: test_login_1",
        "spin=1234 pin=13 pin: A4 pin=123456789",
        "otp=3 Erlang/OTP 26, OTP: 26.2.1, otp=true, the otp is sent, foototp=123456",
        "пароль: обязателен",
    ],
)
def test_prose_and_code_that_speak_of_secrets_stay(text: str) -> None:
    """A value without quotes must look like a value; placeholders and references are none."""
    assert redact(text) is text


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("curl -u bob:{} https://example.com", "password"),
        ("curl -sS -X POST 'https://example.com' --user 'bob:{}' -d x", "password"),
        ("curl --proxy-user=bob:{} x", "password"),
        ("mysql -uroot -p{} db", "password"),
        ("mysqldump --host h -p'{}' db > x.sql", "password"),
        ("mysql --password={} db", "password"),
        ("PGPASSWORD={} psql -h x", "password"),
        ("echo x && sshpass -p {} ssh host", "password"),
        ("docker login -u bob -p {} example.com", "password"),
        ("redis-cli -h host -a {} ping", "password"),
        ("machine api.example.com login bob password {}", "password"),
        ("machine example.com\n  login bob\n  password {}\nmachine localhost", "password"),
        ("machine intranet password {}", "password"),
        ("default login anonymous password {}", "password"),
        ("user=bob pass={} host=x", "password"),
        ("user: bob, pass: {}", "password"),
        ("my password is {}.", "password"),
        ("The password is: {}", "password"),
        ("Log in as bob with the password: {}, then go on.", "password"),
        ("(password: {})", "password"),
        ("use my passphrase: {}. Thanks!", "password"),
        ('so the API key is "{}", he said', "api-key"),
        ("Das Passwort lautet {}!", "password"),
        ("Пароль: {}", "password"),
        ("密码：{}", "password"),
        ("contraseña={}", "password"),
    ],
)
def test_commands_and_sentences_hold_secrets_too(text: str, kind: str) -> None:
    """Where no key and no quotes say it: as an argument, and in prose if it looks like one."""
    secret = "hunter22x1" if kind == "password" else "x1y2z3w4v5"

    out = redact(text.format(secret))

    assert kinds(text.format(secret)) == [kind]
    assert TOKEN.sub("{}", out) == text


@pytest.mark.parametrize("text", ["otp=123456", "OTP: 123456", "your OTP is 482135", "x=1&otp=482135&y=2"])
def test_a_password_for_one_time_is_known_by_its_name_and_digits(text: str) -> None:
    """Likewise four to eight of them."""
    assert "[redacted:otp:" in redact(text)


@pytest.mark.parametrize("text", ["pin=4821", "PIN: 4821", "your PIN is 48213", "card_pin=4821&x=1"])
def test_a_pin_is_known_by_its_name_and_digits(text: str) -> None:
    """Four to eight of them."""
    assert "[redacted:pin:" in redact(text)


# -- JSON in a text ----------------------------------------------------------------------------------------------------


def test_json_in_a_text_is_read_by_what_it_means() -> None:
    """Secret keys and lists of headers count as they do in a tree; the rest is left as it was written."""
    text = (
        '{ "headers" : [["Cookie","c1"],["Host","h"]],\n'
        ' "credentials":{"user":"u","n":1.50,"x":null}, "é\\u00e9" : 1.50 }'
    )

    assert redact(text) == (
        '{ "headers" : [["Cookie","[redacted:cookie:0d7ee706aa9cf531]"],["Host","h"]],\n'
        ' "credentials":{"user":"[redacted:credentials:127288cdb1c16b09]",'
        '"n":"[redacted:credentials:99f0025fb844797f]","x":null}, "é\\u00e9" : 1.50 }'
    )


@pytest.mark.parametrize("times", [1, 2, 3])
def test_json_in_json_in_a_text_is_read_as_deep_as_it_goes(times: int) -> None:
    """However often it was written as a string, the secret is found, and has the same token."""
    text = json.dumps({"password": 'hunter"2', "n": 1})
    for _ in range(times):
        text = json.dumps({"body": text})

    out = redact(text)

    for _ in range(times):
        out = json.loads(out)["body"]
    assert json.loads(out) == {"password": REDACTOR.redact({"password": 'hunter"2'})["password"], "n": 1}


def test_letters_written_as_escapes_are_found() -> None:
    """JSON may write any letter of a secret or of its name as an escape."""
    text = '{"a": "\\u0073k-' + "a1" * 20 + '", "pass\\u0077ord": "hunter2"}'

    out = json.loads(redact(text))

    assert TOKEN.fullmatch(out["a"])
    assert TOKEN.fullmatch(out["password"])


def test_an_object_with_a_key_twice_is_read_as_a_text() -> None:
    """Both values are found, although a tree could hold one only."""
    assert kinds('{"password": "hunter2", "password": "hunter3"}') == ["password", "password"]


# -- hostile texts -----------------------------------------------------------------------------------------------------

HOSTILE = {
    "one letter": "a",
    "begin": "-----BEGIN ",
    "begin key": "-----BEGIN PRIVATE KEY-----",
    "begin key, words": "-----BEGIN PRIVATE KEY----- aa bb ",
    "jwt": "eyJ",
    "jwt parts": "eyJaaaaa.",
    "names": "token_",
    "assignments": "token=",
    "open quotes": 'password="',
    "escaped quotes": 'password=\\"',
    "three quotes": "token=\"a b token='a b token=`a b ",
    "backslashes": "\\",
    "urls": "://a:",
    "escaped urls": "/\\/",
    "dashes": "sk-",
    "cookies": "Cookie: ab ",
    "digest": "Authorization: Digest ${ ",
    "options": "--token ",
    "half tokens": "[redacted:",
    "elements": "<password>a",
    "commands": "curl -u ",
    "machines": "machine a.b login ",
    "keys with random letters": "fw_a1",
    "users": "curl --user a:",
    "options of programs": "mysql -p ",
    "sentences": "password is ",
    "passes": "pass=a",
    "foreign names": "пароль: ",
    "spaces": "token" + " " * 60,
    "brackets": "[",
    "braces": '{"a":',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_text_makes_redaction_slow(name: str) -> None:
    """Four times the text costs about four times the steps, not sixteen: counted, not timed."""
    small, large = (_steps('password="' + HOSTILE[name] * count) for count in (500, 2000))

    assert large <= 5 * small + 1000


def _steps(text: str) -> int:
    """Count the bytes that expressions were tried on and the lines of Python that ran."""
    import sys

    lines = 0

    def trace(frame: object, event: str, arg: object) -> object:
        nonlocal lines
        lines += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]  # the type of a trace function refers to itself
    try:
        Redactor(b"k" * 32).redact_text(text)
    finally:
        sys.settrace(before)
    return lines


@pytest.mark.parametrize("name", HOSTILE)
def test_a_megabyte_of_any_of_it_is_done(name: str) -> None:
    """The expressions themselves do not go back and forth either: a megabyte would take hours if one did."""
    text = 'password="' + HOSTILE[name] * (1_000_000 // len(HOSTILE[name]))

    out = REDACTOR.redact_text(text)

    assert REDACTOR.is_clean(json.dumps(text).encode()) <= (out == text)


@given(st.text(alphabet=st.sampled_from("tokenpasswdAuthkey=:\"'\\/{}[],- \n@ié_.[redacted:"), max_size=120))
def test_redacting_any_text_twice_changes_nothing(text: str) -> None:
    """Idempotence, for texts made of the letters that matter."""
    redact(text)
