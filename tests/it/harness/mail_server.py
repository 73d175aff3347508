"""A mail server for tests: aiosmtpd with options.

Stores each received mail in a folder, as a JSON file with the content that Python's own parser reads.
"""

import argparse
import asyncio
import json
import os
import ssl
import uuid
from email import message_from_bytes, policy

from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword


class Keeper:
    """Stores mails and rejects some recipients."""

    def __init__(self, folder, refused):
        self.folder, self.refused = folder, refused

    async def handle_RCPT(self, server, session, envelope, address, options):
        if address in self.refused:
            return f"550 5.1.1 <{address}>: no such mailbox"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        mail = message_from_bytes(envelope.content, policy=policy.default)

        def part(kind):
            bodies = [one for one in mail.walk() if one.get_content_type() == kind]
            return bodies[0].get_content() if bodies else None

        kept = {
            "sender": envelope.mail_from,
            "recipients": envelope.rcpt_tos,
            "encrypted": session.ssl is not None or server.transport.get_extra_info("sslcontext") is not None,
            "login": (session.auth_data.login or b"").decode() if session.authenticated else None,
            "headers": [[name, str(value)] for name, value in mail.items()],
            "text": part("text/plain"),
            "html": part("text/html"),
        }
        # The rename is atomic, so a test never reads half of a file.
        path = os.path.join(self.folder, uuid.uuid4().hex)
        with open(path + ".part", "w", encoding="utf-8") as file:
            json.dump(kept, file)
        os.rename(path + ".part", path + ".json")
        return "250 2.0.0 kept"


def authenticator(user, password):
    def check(server, session, envelope, mechanism, data):
        right = isinstance(data, LoginPassword) and data == LoginPassword(user.encode(), password.encode())
        return AuthResult(success=right, handled=False, auth_data=data)

    return check


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("folder")
    parser.add_argument("--refuse", action="append", default=[])
    parser.add_argument("--tls", choices=["start", "implicit"])
    parser.add_argument("--certificate")
    parser.add_argument("--key")
    parser.add_argument("--login", help="USER:PASSWORD, demanded before a mail")
    given = parser.parse_args()
    context = None
    if given.tls:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(given.certificate, given.key)
    options = {"hostname": "mail.test"}
    if given.tls == "start":
        options.update(tls_context=context, require_starttls=True)
    if given.login:
        user, password = given.login.split(":")
        # aiosmtpd does not count implicit TLS, because it has not started TLS itself.
        options.update(
            authenticator=authenticator(user, password),
            auth_required=True,
            auth_require_tls=given.tls == "start",
        )
    keeper = Keeper(given.folder, given.refuse)
    server = await asyncio.get_running_loop().create_server(
        lambda: SMTP(keeper, **options),
        "127.0.0.1",
        given.port,
        ssl=context if given.tls == "implicit" else None,
    )
    await server.serve_forever()


asyncio.run(main())
