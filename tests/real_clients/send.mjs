// Sends with posthog-node what stdin asks: {"host", "key", "historical", "gzip", "batch", "events"}, see send.py.
import { PostHog } from "posthog-node";

const chunks = [];
for await (const chunk of process.stdin) chunks.push(chunk);
const { host, key, historical, gzip, batch, events } = JSON.parse(Buffer.concat(chunks).toString("utf-8"));

const client = new PostHog(key, {
  host,
  historicalMigration: historical,
  disableCompression: !gzip,
  flushAt: batch,
  maxBatchSize: batch,
  flushInterval: 60_000,
});
const failures = [];
client.on("error", (error) => failures.push(String(error)));

for (const { event, distinct_id, timestamp, uuid, properties, groups } of events) {
  client.capture({ event, distinctId: distinct_id, timestamp: new Date(timestamp), uuid, properties, groups });
}
client.identify({
  distinctId: "user-1",
  properties: { $set: { plan: "pro" }, $set_once: { joined: "2023-01-01" }, $anon_distinct_id: "device-1" },
});
client.alias({ distinctId: "user-1", alias: "device-2" });
client.groupIdentify({ groupType: "company", groupKey: "acme", properties: { seats: 12 } });
client.setPersonProperties({ distinctId: "user-2", properties: { plan: "free" }, propertiesOnce: { joined: "2023-02-01" } });

await client.shutdown(30_000);
if (failures.length) {
  console.error(failures.join("\n"));
  process.exitCode = 1;
}
