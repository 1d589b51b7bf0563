import type { JSX } from "preact";
import { formatCount, formatTime } from "../format.ts";
import { Answer, Empty, useAsked } from "../parts.tsx";
import { linkTo } from "../router.ts";
import { client } from "../server.ts";
import { AgentScreen } from "./agent.tsx";

export function AgentsScreen({ path }: { path: readonly string[] }): JSX.Element {
  const [name] = path;
  return name === undefined ? <AllAgents /> : <AgentScreen key={name} name={name} />;
}

function AllAgents(): JSX.Element {
  const asked = useAsked(() => client().listAgents(), []);
  return (
    <div class="stack">
      <h1>Agents</h1>
      <Answer asked={asked}>
        {({ agents }) =>
          agents.length === 0 ? (
            <Empty>
              No agents yet. One is there as soon as it remembers something:{" "}
              <code>rkat agent remember ada "The port is 7443."</code>
            </Empty>
          ) : (
            <div class="scroll-x">
              <table>
                <thead>
                  <tr>
                    <th>Agent</th>
                    <th class="number">Memories</th>
                    <th class="wide">First</th>
                    <th>Last</th>
                  </tr>
                </thead>
                <tbody>
                  {agents.map(({ agent, count, created_at, updated_at }) => (
                    <tr key={agent}>
                      <td class="title">
                        <a href={linkTo(["agents", agent])}>
                          <bdi>{agent}</bdi>
                        </a>
                      </td>
                      <td class="number">{formatCount(count)}</td>
                      <td class="wide">{formatTime(created_at)}</td>
                      <td>{formatTime(updated_at)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </Answer>
    </div>
  );
}
