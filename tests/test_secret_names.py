"""Which names stand for a secret."""

from __future__ import annotations

import pytest
from agentreplay.recorder.secret_names import HARMLESS, SecretNames
from hypothesis import given
from hypothesis import strategies as st

SECRET = {
    "authorization": "authorization Authorization AUTHORIZATION proxy-authorization Proxy-Authorization auth "
    "basic_auth headers.Authorization authorization_header",
    "api-key": "api_key apikey apiKey ApiKey APIKEY API_KEY APIKey api-key x-api-key X-API-Key openaiApiKey "
    "OPENAI_API_KEY my.api_key api_key_2 API_KEY_OLD apiKeys",
    "password": "password Password PASSWORD passwd pwd passphrase DB_PASSWORD dbPassword userpassword new_password "
    "password2 password_confirmation password_hash passwordHash MYSQL_PWD db_pass DB_PASS smtpPass user[password] "
    "Passwort datenbankPasswort DB_PASSWORT passord kennwort Wachtwoord mot_de_passe motDePasse motdepasse contrasena "
    "contraseña Contraseña_2 senha nova_senha hasło HASŁO haslo heslo lösenord пароль Пароль db_пароль 密码 数据库密码 "
    "パスワード: 비밀번호",
    "secret": "secret secrets client_secret clientSecret CLIENT_SECRET webhook_secret SecretString",
    "token": "token access_token accessToken refresh_token id_token auth_token authToken session_token bearer "
    "X-Auth-Token GITHUB_TOKEN access_tokens token_value hf_token bot_token",
    "cookie": "cookie Cookie cookies set-cookie Set-Cookie session_cookie",
    "private-key": "private_key privateKey PRIVATE_KEY privatekey ssh_private_key",
    "credentials": "credentials credential aws_credentials googleCredentials",
    "connection-string": "connection_string connectionString CONNECTION_STRING dsn SENTRY_DSN sentryDsn conn_str",
    "secret-key": "aws_secret_access_key AWS_SECRET_ACCESS_KEY secretAccessKey secret_key signing_key signature_key "
    "SECRET_KEY_BASE AccountKey encryption_key access_key",
    "session": "sessionid PHPSESSID JSESSIONID",
    "csrf": "csrf csrf_token X-CSRF-Token csrfmiddlewaretoken XSRF-TOKEN",
}
NO_SECRET = (
    "max_tokens total_tokens prompt_tokens completion_tokens token_count tokens usage tokenizer input_tokens_details "
    "token_type next_page_token nextPageToken page_token next_token continuation_token password_reset_url secret_santa "
    "maxTokens max_output_tokens cached_tokens tokens_used token_limit token_budget token_ids totalTokenCount n_tokens "
    "eos_token pad_token price_per_token tokens_per_second time_to_first_token cookie_consent password_policy "
    "password_required author authors author_name authentication auth_method oauth auth0 keyboard key keys primary_key "
    "public_key foreign_key cache_key sort_key storage_key monkey broken PWD OLDPWD pass passed compass passport "
    "resenha desenha mot passe parolas паролем "
    "access_key_id api_key_name secret_name secret_arn secretary session_id sessionId session connection connections "
    "credentials_file token_url authorization_endpoint signature thought_signature cookiecutter bearer_format "
    "AWS::IAM::AccessKey detail logprobs"
)


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, text in SECRET.items() for name in text.split()])
def test_secret_names_are_known_in_every_spelling(kind: str, name: str) -> None:
    """Case, separators, what stands in front, and endings such as `_old` make no difference."""
    assert SecretNames().kind_of_key(name) == kind


@pytest.mark.parametrize("name", NO_SECRET.split())
def test_names_that_only_contain_a_secret_name_are_none(name: str) -> None:
    """Counts, page tokens, words of a model, addresses and policies are no secrets."""
    assert SecretNames().kind_of_key(name) is None


@pytest.mark.parametrize("name", ["API Key", "api key", "secret key", "access token", "Password:", "Password *"])
def test_labels_of_forms_are_names(name: str) -> None:
    """A space inside a name and the marks behind it make no difference."""
    assert SecretNames().kind_of_key(name) is not None


@pytest.mark.parametrize("name", ["patient name", "patientName", "PATIENT_NAME", "old_patient_name", "Patient-Name"])
def test_own_names_are_known_in_every_spelling(name: str) -> None:
    """One spelling of a user's own name stands for all."""
    assert SecretNames(extra=["patient name"]).kind_of_key(name) == "patient-name"
    assert SecretNames().kind_of_key(name) is None


def test_own_names_may_be_in_any_script() -> None:
    """A name that is not ASCII counts as a whole key, in the usual cases."""
    names = SecretNames(extra=["пароль"])

    assert [names.kind_of_key(key) for key in ("пароль", "Пароль", "ПАРОЛЬ", "пароли")] == ["custom"] * 3 + [None]


def test_an_allowed_name_allows_that_name_only() -> None:
    """Allowing `token` leaves `access_token` a secret."""
    names = SecretNames(allowed=["token"])

    assert [names.kind_of_key(key) for key in ("token", "TOKEN", "access_token")] == [None, None, "token"]


def test_a_working_directory_is_no_password() -> None:
    """`PWD` is where a shell stands, but the password in a connection string."""
    names = SecretNames()

    assert names.kind_at(b"PWD=/home", 0, 3)[0] is None
    assert names.kind_at(b"UID=sa;PWD=x", 7, 10)[0] == "password"


def test_needles_that_hide_others_hide_no_secret_name() -> None:
    """A name whose needles are all of the harmless kind is no secret, whatever stands in front."""
    names = SecretNames()

    kinds = {names.kind_of_key(prefix + needle) for needle in HARMLESS for prefix in ("", "my_", "access_")}

    assert kinds == {None}


@given(st.text(max_size=80))
def test_any_text_may_be_a_key(key: str) -> None:
    """Classifying never fails, and gives the same answer each time."""
    names = SecretNames(extra=["ssn"])

    assert names.kind_of_key(key) == names.kind_of_key(key)


def test_the_memo_of_names_is_bounded() -> None:
    """Endless new names do not fill the memory."""
    names = SecretNames()
    for number in range(10_000):
        names.kind_of_key(f"password_of_{number}_token")

    assert len(names._kinds) <= 4096
