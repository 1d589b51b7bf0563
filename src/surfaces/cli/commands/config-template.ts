/** What `rkat init` writes. Each commented line is valid as it stands once its `#` is removed. */
export const CONFIG_TEMPLATE = `# Configuration of rkat for this folder and those below it.
# Flags and RKAT_* variables win over this file. Keys never belong here: set ANTHROPIC_API_KEY, OPENAI_API_KEY or
# GEMINI_API_KEY in the environment, and see \`rkat doctor\` for what works.

[agent]
# model = "claude-sonnet-5-5"     # without one, the first provider that has a key chooses; "offline" needs none
# system_prompt = "Be brief."
# max_tokens_per_turn = 16384     # output tokens of one model call
# max_turns = 100                 # model calls in one turn

[budget]                          # a session ends gracefully when one is used up, and warns at 80 %
# max_tokens = 100000             # input and output of all model calls
# max_duration = "10m"            # of one turn
# max_tool_calls = 50

[retry]
# max_retries = 3                 # of a model call that failed for a while: rate limits, overload, resets
# call_timeout = "10m"

[compaction]                      # a context that grows too large is summarised; rkat compact undo brings it back
# auto_compact_threshold = 100000 # tokens; without it, 80 % of the model's window
# recent_turn_budget = 4          # turns that stay as they were said
# max_summary_tokens = 4096
# strategy = "cascade"            # two summaries, of the recent past and of all before, instead of one

[tools]                           # rkat run offers time, tasks and memory
# builtins_enabled = true         # and patches to files
# shell_enabled = true            # and a shell
# memory = false                  # but no search of what was said before, unless rkat run --memory asks for it
# default_timeout = "600s"
# MCP servers whose tools sessions have stand in .rkat/mcp.toml: rkat mcp add NAME -- COMMAND

[memory]                          # rkat memory search finds what was said
# scope = "session"               # a session recalls only what left its own context; else, that of every session
# embedder = "remote"             # meaning by a provider's model instead of the one that comes along
# embedding_model = "openai/text-embedding-3-small"
# embedding_dimensions = 1536

[agent_memory]                    # rkat agent remember: an agent's memories in three tiers
# immediate_window = 64           # word for word
# recent_window = 64              # in a short-term summary; the first is made at 129 memories, then every 64
# profile = "summarizer"          # who summarises; without such a profile, the model of sessions

[telemetry]                       # spans for an OpenTelemetry collector; the usual OTEL_ variables say where, too
# enabled = true
# endpoint = "http://localhost:4318"
# capture_content = true          # also what is said, what tools are given and return

# [profiles.summarizer]           # a base model, which continues a text
# model = "comma-v0.1-2t"
# api = "ollama-generate"         # or "chat"
# stop = ["\\n\\n"]

# A server of your own that speaks OpenAI's chat API: rkat -m local/MODEL
# [self_hosted.servers.local]
# base_url = "http://127.0.0.1:8000/v1"
# api_key_env = "LOCAL_API_KEY"   # the variable that holds the key, when there is one
`;
