// What the server says about itself and who may do what, loaded once and after each sign-in.
import { get, identity } from "./api";
import { store } from "./store";

/** GET /auth/state */
export interface AuthState {
  mark: "off" | "no-model" | "demo" | "ready";
  accounts: boolean;
  signup: "open" | "invite" | "closed";
  first: boolean;
  guest: boolean;
  authentication: boolean;
}

export const authState = store<AuthState | null>(null);
export const authProblem = store<unknown>(null);

export async function loadAuthState(): Promise<void> {
  try {
    authState.set(await get<AuthState>("/auth/state"));
    authProblem.set(null);
  } catch (error) {
    authProblem.set(error);
  }
}

identity.watch(() => void loadAuthState());

// Somebody is no longer signed in, here or in another tab. A guest's notebooks go with the guest.
let last = identity.get().tokens?.user;
identity.watch(({ tokens }) => {
  const gone = last;
  last = tokens?.user;
  if (gone && gone.user_id !== last?.user_id)
    void import("./play/storage").then(({ forget, leave }) => (gone.role === "guest" ? forget : leave)(gone.user_id)).catch(() => undefined);
});

export const signedIn = (): boolean => Boolean(identity.get().tokens || identity.get().key);
