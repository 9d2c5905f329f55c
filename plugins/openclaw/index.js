// The gate of copilot-bridge for OpenClaw. All that it does is in bridge.js.
import { definePluginEntry } from "openclaw/plugin-sdk/plugin-entry";

import { DESCRIPTION, ID, register } from "./bridge.js";

export default definePluginEntry({ id: ID, name: ID, description: DESCRIPTION, register });
