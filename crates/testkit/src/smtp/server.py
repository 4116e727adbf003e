"""An SMTP server for tests, on aiosmtpd.

Says the port it listens on, then one line of JSON for each mail it has taken, and ends with its standard input.
"""

import argparse
import asyncio
import email
import email.policy
import json
import logging
import ssl
import sys
import warnings

from aiosmtpd.smtp import SMTP, AuthResult


class Mailbox:
    def __init__(self, options):
        self.options = options

    async def handle_RCPT(self, server, session, envelope, address, rcpt_options):
        if address in self.options.refuse:
            return "550 no such mailbox"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        mail = email.message_from_bytes(envelope.content, policy=email.policy.default)
        say(
            {
                "sender": envelope.mail_from,
                "recipients": envelope.rcpt_tos,
                "headers": [[name, str(value)] for name, value in mail.items()],
                "text": mail.get_content().replace("\r\n", "\n"),
                "user": session.auth_data.login.decode() if session.auth_data else None,
                "encrypted": session.ssl is not None or self.options.encryption == "tls",
            }
        )
        return "250 OK"

    async def handle_QUIT(self, server, session, envelope):
        if self.options.never_say_goodbye:
            await asyncio.Event().wait()
        return "221 Bye"

    def login(self, server, session, envelope, mechanism, given):
        expected = (self.options.user.encode(), self.options.password.encode())
        return AuthResult(success=(given.login, given.password) == expected, handled=False, auth_data=given)


def say(value):
    print(json.dumps(value), flush=True)


async def serve(options):
    context = None
    if options.encryption != "none":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(options.certificate, options.key)
    mailbox = Mailbox(options)
    starttls = options.encryption == "starttls"
    loop = asyncio.get_running_loop()

    def session():
        return SMTP(
            mailbox,
            hostname="localhost",
            tls_context=context if starttls else None,
            require_starttls=starttls,
            auth_required=options.user is not None,
            auth_require_tls=starttls,
            authenticator=mailbox.login,
            loop=loop,
        )

    tls = context if options.encryption == "tls" else None
    server = await loop.create_server(session, "127.0.0.1", options.port, ssl=tls)
    say(server.sockets[0].getsockname()[1])
    await loop.run_in_executor(None, sys.stdin.read)


# What clients are made to do wrong on purpose is nobody's concern.
logging.disable(logging.CRITICAL)
warnings.simplefilter("ignore")

arguments = argparse.ArgumentParser()
arguments.add_argument("--port", type=int, default=0)
arguments.add_argument("--encryption", choices=["none", "starttls", "tls"], default="none")
arguments.add_argument("--certificate")
arguments.add_argument("--key")
arguments.add_argument("--user")
arguments.add_argument("--password")
arguments.add_argument("--refuse", action="append", default=[])
arguments.add_argument("--never-say-goodbye", action="store_true")
asyncio.run(serve(arguments.parse_args()))
