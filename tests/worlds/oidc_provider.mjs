// An issuer that people sign in at: node-oidc-provider, with PKCE demanded. Read from standard input in its folder.
// Arguments: port, client id, client secret, and what it may send people back to.
import { Provider } from 'oidc-provider';

const [port, client_id, client_secret, ...redirect_uris] = process.argv.slice(2);
// whoever signs in has the scopes that its name says behind a colon
const scopesOf = (id) => (id.includes(':') ? [id.split(':').slice(1).join(':')] : []);

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{ client_id, client_secret, redirect_uris, token_endpoint_auth_method: 'client_secret_basic' }],
  pkce: { required: () => true },
  claims: { openid: ['sub', 'roles'] },
  conformIdTokenClaims: false,
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, roles: scopesOf(id) }) }),
  cookies: { keys: ['of tests'] },
  ttl: { AccessToken: 600, AuthorizationCode: 60, Grant: 600, IdToken: 600, Interaction: 600, Session: 600 },
});
provider.listen(Number(port), '127.0.0.1', () => console.log('listening'));
