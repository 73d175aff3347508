// Sign-in with an OpenID provider on another site, as a browser with its cookie rules does it.

import assert from "node:assert/strict";
import { createHash, generateKeyPairSync, sign } from "node:crypto";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { assertAccessible, keepPicture } from "./look.mjs";
import { startBrowser, startService } from "./service.mjs";

const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });

let service, browser, provider;

const encoded = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");

/** Starts a provider whose page has one button for `person`, and one to cancel. */
async function startProvider() {
  const issued = new Map();
  const self = { person: {} };
  const pages = {
    "/.well-known/openid-configuration": () => ({
      issuer: self.issuer,
      authorization_endpoint: `${self.issuer}/authorize`,
      token_endpoint: `${self.issuer}/token`,
      jwks_uri: `${self.issuer}/keys`,
    }),
    "/keys": () => ({ keys: [{ ...publicKey.export({ format: "jwk" }), kid: "1" }] }),
    "/authorize": (url) => {
      const code = String(issued.size + 1);
      issued.set(code, Object.fromEntries(url.searchParams));
      const back = (query) => {
        const target = new URL(url.searchParams.get("redirect_uri"));
        const state = url.searchParams.get("state");
        target.search = new URLSearchParams({ ...query, state }).toString();
        return target.href.replaceAll("&", "&amp;");
      };
      return `<!doctype html><title>Provider</title><a href="${back({ code })}">Continue</a>
        <a href="${back({ error: "access_denied" })}">Cancel</a>`;
    },
    "/token": (_, body) => {
      const form = new URLSearchParams(body);
      const sent = issued.get(form.get("code"));
      issued.delete(form.get("code"));
      const challenge = createHash("sha256").update(form.get("code_verifier")).digest("base64url");
      if (sent?.code_challenge !== challenge) return undefined;
      const now = Math.floor(Date.now() / 1_000);
      const claims = {
        iss: self.issuer, aud: "punctual", iat: now, exp: now + 60, nonce: sent.nonce,
        ...self.person,
      };
      const signed = `${encoded({ alg: "ES256", kid: "1" })}.${encoded(claims)}`;
      const key = { key: privateKey, dsaEncoding: "ieee-p1363" };
      return { id_token: `${signed}.${sign("sha256", signed, key).toString("base64url")}` };
    },
  };
  const server = createServer(async (request, response) => {
    const url = new URL(request.url, self.issuer);
    let body = "";
    for await (const chunk of request) body += chunk;
    const answer = pages[url.pathname]?.(url, body);
    if (answer === undefined) response.writeHead(400).end("{}");
    else if (typeof answer === "string") response.setHeader("content-type", "text/html").end(answer);
    else response.end(JSON.stringify(answer));
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  // Another site than that of the service, which is at 127.0.0.1.
  self.issuer = `http://localhost:${server.address().port}`;
  self.stop = () => new Promise((resolve) => server.close(resolve).closeAllConnections());
  return self;
}

before(async () => {
  provider = await startProvider();
  browser = await startBrowser();
  service = await startService((base) => ({
    PUNCTUAL_HTTP_PUBLIC_URL: base,
    PUNCTUAL_OIDC_ISSUER: provider.issuer,
    PUNCTUAL_OIDC_CLIENT_ID: "punctual",
    PUNCTUAL_OIDC_CLIENT_SECRET: "secret",
    PUNCTUAL_OIDC_NAME: "Example ID",
  }));
});

after(async () => {
  await browser.close();
  await service.stop();
  await provider.stop();
});

for (const javaScriptEnabled of [true, false]) {
  const how = javaScriptEnabled ? "with" : "without";
  test(`a person signs in at the provider, ${how} script`, async () => {
    const context = await browser.newContext({ javaScriptEnabled });
    const page = await context.newPage();
    const email = `${how}@example.com`;
    provider.person = { sub: how, email, email_verified: true };
    await page.goto(`${service.base}/dashboard/jobs?status=FAILED`);
    await page.getByRole("link", { name: "Sign in with Example ID" }).click();
    await page.getByRole("link", { name: "Continue" }).click();
    await page.waitForURL(`${service.base}/dashboard/jobs?status=FAILED`);
    await page.getByText(email).first().waitFor();
    const cookies = await context.cookies(service.base);
    const session = cookies.find((one) => one.name === "__Host-punctual");
    assert.deepEqual([session.httpOnly, session.sameSite], [true, "Strict"]);
    assert.ok(!cookies.some((one) => one.name === "__Host-punctual-sign-in"), "it is used up");
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.goto(`${service.base}/dashboard/keys`);
    assert.match(page.url(), /sign-in/);
    await context.close();
  });
}

test("a sign-in that is cancelled or has ended says so", async () => {
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(`${service.base}/dashboard/sign-in`);
  await assertAccessible(page);
  await keepPicture(page, "oidc-sign-in-light");
  await page.getByRole("link", { name: "Sign in with Example ID" }).click();
  await page.getByRole("link", { name: "Cancel" }).click();
  await page.getByRole("heading", { name: "Example ID did not sign you in" }).waitFor();
  await assertAccessible(page);
  await keepPicture(page, "oidc-refused-light");
  await page.reload();
  await page.getByRole("heading", { name: "Sign in again" }).waitFor();
  provider.person = { sub: "x", email: "x@example.com", email_verified: false };
  await page.getByRole("link", { name: "Back to sign-in" }).click();
  await page.getByRole("link", { name: "Sign in with Example ID" }).click();
  await page.getByRole("link", { name: "Continue" }).click();
  await page.getByText("Your e-mail address is not confirmed").waitFor();
  await context.close();
});
