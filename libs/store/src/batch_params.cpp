#include "batch_params.hpp"

#include "commit_check.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

namespace qm::store {
namespace {

using Views = std::vector<std::string_view>;
using Blobs = std::vector<std::optional<std::string_view>>;
using Numbers = std::vector<std::int64_t>;

std::int64_t number(std::uint64_t value) { return static_cast<std::int64_t>(value); }

std::pair<std::string_view, std::int32_t> place_of(const CursorRow& row) { return {row.topic, row.partition}; }

/// The last row of each key, in order.
template <class Row, class KeyOf>
std::vector<const Row*> newest(const std::vector<Row>& rows, KeyOf key_of) {
  std::set<decltype(key_of(rows.front()))> seen;
  std::vector<const Row*> out;
  for (auto row = rows.rbegin(); row != rows.rend(); ++row)
    if (seen.insert(key_of(*row)).second) out.push_back(&*row);
  std::reverse(out.begin(), out.end());
  return out;
}

std::pair<std::string_view, std::string_view> pair_of(std::string_view a, std::string_view b) { return {a, b}; }

void put_state(pg::Params& params, const Commit& batch) {
  Views kinds, keys, gone_kinds, gone_keys;
  Blobs values;
  for (const auto* row : newest(batch.state, [](const StateRow& r) { return pair_of(r.kind, r.key); })) {
    (row->value ? kinds : gone_kinds).push_back(row->kind);
    (row->value ? keys : gone_keys).push_back(row->key);
    if (row->value) values.emplace_back(*row->value);
  }
  params.texts(kinds).texts(keys).bytes(values).texts(gone_kinds).texts(gone_keys);
}

void put_outbox(pg::Params& params, const Commit& batch) {
  Numbers sequences, versions;
  Views topics, keys;
  Blobs values;
  std::vector<bool> tombstones, is_newest;
  const auto last = newest(batch.outbox, [](const OutboxRow& r) { return pair_of(r.topic, r.key); });
  auto next = last.begin();
  for (const auto& row : batch.outbox) {
    sequences.push_back(number(row.sequence));
    topics.push_back(row.topic);
    keys.push_back(row.key);
    versions.push_back(number(row.key_version));
    tombstones.push_back(row.tombstone);
    values.emplace_back(row.value);
    is_newest.push_back(next != last.end() && *next == &row);
    if (is_newest.back()) ++next;
  }
  params.int8s(sequences).texts(topics).texts(keys).int8s(versions).bools(tombstones).bytes(values).bools(is_newest);
}

void put_intents(pg::Params& params, const Commit& batch) {
  Views ids, kinds, keys, done(batch.intents_done.begin(), batch.intents_done.end());
  Numbers sequences;
  Blobs payloads;
  for (const auto& row : batch.intents) {
    ids.push_back(row.id);
    kinds.push_back(row.kind);
    keys.push_back(row.key);
    sequences.push_back(number(row.sequence));
    payloads.emplace_back(row.payload);
  }
  params.texts(ids).texts(kinds).texts(keys).int8s(sequences).bytes(payloads).texts(done);
}

void put_inbox(pg::Params& params, const Commit& batch) {
  Views topics, keys;
  Numbers partitions, offsets, versions, marks;
  std::vector<std::string> histories;
  std::vector<bool> gone;
  for (const auto* row : newest(batch.cursors, place_of)) {
    topics.push_back(row->topic);
    partitions.push_back(row->partition);
    offsets.push_back(row->next_offset);
    marks.push_back(number(row->mark));
    histories.push_back(to_text(row->history));
  }
  params.texts(topics).int8s(partitions).int8s(offsets).int8s(marks).texts(Views(histories.begin(), histories.end()));
  topics.clear();
  for (const auto* row : newest(batch.seen, [](const SeenRow& r) { return pair_of(r.topic, r.key); })) {
    topics.push_back(row->topic);
    keys.push_back(row->key);
    versions.push_back(number(row->version));
    gone.push_back(row->gone);
  }
  params.texts(topics).texts(keys).int8s(versions).bools(gone);
}

void put_requests(pg::Params& params, const Commit& batch) {
  Views ids;
  Numbers times;
  Blobs replies;
  for (const auto* row : newest(batch.requests, [](const RequestRow& r) { return std::string_view(r.id); })) {
    ids.push_back(row->id);
    times.push_back(micros(row->at));
    replies.emplace_back(row->reply);
  }
  params.texts(ids).int8s(times).bytes(replies).int8(micros(batch.now - kRequestLife));
}

}  // namespace

pg::Params batch_params(const Commit& batch, std::uint64_t epoch) {
  pg::Params params;
  params.int8(number(epoch)).int8(micros(batch.now));
  params.int8(number(batch.journal_sequence)).bytes(std::string_view(batch.journal)).int8(number(batch.digest));
  put_state(params, batch);
  put_outbox(params, batch);
  put_intents(params, batch);
  put_inbox(params, batch);
  put_requests(params, batch);
  return params;
}

pg::Params key_params(const std::vector<KeyRow>& keys) {
  Views topics, names;
  for (const auto& row : keys) {
    topics.push_back(row.topic);
    names.push_back(row.key);
  }
  pg::Params params;
  params.texts(topics).texts(names);
  return params;
}

Status put_anchors(pg::Connection& session, const std::string& schema, const Commit& batch) {
  Views topics;
  Numbers partitions, offsets, anchors, hashes;
  std::vector<CursorRow> given;
  std::ranges::copy_if(batch.cursors, std::back_inserter(given),
                       [](const CursorRow& r) { return r.anchor.has_value(); });
  for (const auto* row : newest(given, place_of)) {
    topics.push_back(row->topic);
    partitions.push_back(row->partition);
    offsets.push_back(row->next_offset);
    anchors.push_back(row->anchor->offset);
    hashes.push_back(number(row->anchor->hash));
  }
  if (topics.empty()) return {};
  QM_TRY(session.query("insert into " + schema +
                           ".cursor as c (topic, partition, next_offset, anchor_offset, anchor_hash) select * from "
                           "unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[]) "
                           "on conflict (topic, partition) do update set anchor_offset = excluded.anchor_offset, "
                           "anchor_hash = excluded.anchor_hash",
                       pg::Params().texts(topics).int8s(partitions).int8s(offsets).int8s(anchors).int8s(hashes)));
  return {};
}

}  // namespace qm::store
