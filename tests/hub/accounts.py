"""Who asks, and what they may do."""

from __future__ import annotations

from dataclasses import dataclass

from tests.hub.store import Repo


@dataclass(frozen=True)
class Account:
    """The holder of a token: a user, the organisations they belong to, and what the token allows."""

    user: str
    role: str  # "write" or "read"
    organisations: tuple[str, ...] = ()

    @property
    def namespaces(self) -> tuple[str, ...]:
        return (self.user, *self.organisations)

    def describe(self) -> dict[str, object]:
        """The answer of whoami-v2."""
        organisations = [
            {"type": "org", "id": name, "name": name, "fullname": name, "roleInOrg": "write", "isEnterprise": False}
            for name in self.organisations
        ]
        token = {"displayName": f"{self.user}-{self.role}", "role": self.role, "createdAt": "2026-01-01T00:00:00.000Z"}
        return {
            "type": "user",
            "id": self.user,
            "name": self.user,
            "fullname": self.user,
            "email": None,
            "isPro": False,
            "canPay": False,
            "orgs": organisations,
            "auth": {"type": "access_token", "accessToken": token},
        }


@dataclass(frozen=True)
class Tokens:
    """The tokens that the tests use. They look like real ones, so that a scan for leaks would find them."""

    write: str = "hf_LoopbackWriteTokenOfTheTestsAbcdefg"
    read: str = "hf_LoopbackReadTokenOfTheTestsAbcdefgh"
    stranger: str = "hf_LoopbackStrangerTokenOfTheTestsAbc"
    bad: str = "hf_LoopbackTokenThatNobodyHasAbcdefghij"


TOKENS = Tokens()
ORGANISATIONS = ("slant-tests", "org")


def accounts(organisations: tuple[str, ...] = ORGANISATIONS) -> dict[str, Account]:
    return {
        TOKENS.write: Account("ada", "write", organisations),
        TOKENS.read: Account("ada", "read", organisations),
        TOKENS.stranger: Account("mallory", "write"),
    }


def may_see(account: Account | None, repo: Repo) -> bool:
    """Whether the repository exists as far as this account can tell."""
    return not repo.private or (account is not None and repo.namespace in account.namespaces)


def may_download(account: Account | None, repo: Repo) -> bool:
    """Whether files are served: a gated repository shows itself, but not what it holds."""
    if not may_see(account, repo):
        return False
    if not repo.gated:
        return True
    return account is not None and (repo.namespace in account.namespaces or account.user in repo.granted)


def may_write(account: Account | None, namespace: str) -> bool:
    return account is not None and account.role == "write" and namespace in account.namespaces
