// One script and one style, with names that Rust can include, and the script's hash for the report's policy.
import { createHash } from "node:crypto";
import { defineConfig } from "vite";

const hash = {
  name: "script-hash",
  generateBundle(_options, bundle) {
    const script = Object.values(bundle).find((file) => file.type === "chunk");
    // Without its last line break, which Rust would have to know of.
    const source = createHash("sha256").update(script.code).digest("base64");
    this.emitFile({ type: "asset", fileName: "app.js.sha256", source });
  },
};

export default defineConfig({
  logLevel: "warn",
  plugins: [hash],
  build: {
    target: "es2022",
    emptyOutDir: true,
    sourcemap: false,
    cssCodeSplit: false,
    rollupOptions: {
      input: "src/main.ts",
      output: { format: "iife", entryFileNames: "app.js", assetFileNames: "app[extname]" },
    },
  },
});
