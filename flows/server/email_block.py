"""A Prefect block that sends e-mail by SMTP. Prefect's own e-mail block needs an account at SendGrid.

The server sends notifications, so it must know the block: `prefect_server` imports this module.
"""

from prefect.blocks.notifications import AbstractAppriseNotificationBlock
from pydantic import Field, SecretStr


class Email(AbstractAppriseNotificationBlock):
    """Sends notifications by SMTP."""

    _block_type_name = "E-mail by SMTP"
    _block_type_slug = "email-smtp"

    url: SecretStr = Field(
        title="Address",
        description="Server, account and receiver, as Apprise writes them.",
        examples=["mailtos://user:password@mail.example.org?to=someone@example.org"],
    )
