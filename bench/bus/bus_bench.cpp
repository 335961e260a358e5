// The speed of the carriers alone: the bus (publish, read, latency) and the store (commits). Prints a JSON line for
// each measure, with the median, minimum and maximum of its repeats.
//
//   bus_bench throughput SETTING BATCH     records of 300 bytes, durable before the next batch is sent
//   bus_bench latency SETTING RATE         from the moment a record is due to the moment a reader has it
//   bus_bench store CONNINFO BATCH         one commit = BATCH state, outbox and seen rows, journal, cursor
//   bus_bench pipeline SETTING CONNINFO    a service's host to another's, with outbox and cursors: see pipeline.hpp
//   bus_bench effect SETTING RATE CONNINFO
#include "qm/bus/bus.hpp"

#include "pipeline.hpp"
#include "qm/base/log.hpp"
#include "qm/store/store.hpp"
#include "report.hpp"

#include <thread>
#include <unistd.h>

namespace {

using namespace std::chrono_literals;
using namespace qm::bench;

std::string fresh_topic(int repeat) { return "bench." + std::to_string(::getpid()) + "." + std::to_string(repeat); }

void throughput(const std::string& setting, int batch) {
  const auto bus = must(qm::bus::make_bus(setting));
  Report report("bus.throughput", {{"carrier", bus->name()}, {"batch", batch}});
  // About two seconds a repeat for every batch size; the first repeat is a warm-up and is not counted.
  const int records = std::min(100'000, batch * 1000);
  for (int repeat = -1; repeat < kRepeats; ++repeat) {
    const std::vector<std::string> topics{fresh_topic(repeat)};
    must(bus->ensure_topics(topics, qm::bus::kDefaultPartitions));
    const auto producer = must(bus->producer("bench"));
    auto start = Clock::now();
    for (int sent = 0; sent < records; sent += batch) {
      std::vector<qm::bus::Record> part;
      for (int i = sent; i < std::min(records, sent + batch); ++i)
        part.push_back({topics[0], "key" + std::to_string(i % kKeys), std::string(kBytes, 'x')});
      must(producer->publish(part, 30s));
    }
    if (repeat >= 0) report.add("published_per_s", records / since(start));
    if (records < 50'000) continue;  // the log is too short to read for a while
    const auto consumer = must(bus->consumer({.group = topics[0], .topics = topics, .cursor = {}}));
    int got = 0;
    while (got == 0) got += static_cast<int>(must(consumer->poll(512, 100ms)).size());
    const int first = got;
    start = Clock::now();
    while (got < records) got += static_cast<int>(must(consumer->poll(512, 100ms)).size());
    if (repeat >= 0 && got > first) report.add("read_per_s", (got - first) / since(start));
  }
  report.print();
}

void latency(const std::string& setting, int rate) {
  const auto bus = must(qm::bus::make_bus(setting));
  Report report("bus.latency", {{"carrier", bus->name()}, {"per_s", rate}});
  for (int repeat = -1; repeat < kRepeats; ++repeat) {
    const int records = rate * (repeat < 0 ? 2 : 5);
    const std::vector<std::string> topics{fresh_topic(repeat)};
    must(bus->ensure_topics(topics, qm::bus::kDefaultPartitions));
    const auto consumer = must(bus->consumer({.group = topics[0], .topics = topics, .cursor = {}}));
    const auto producer = must(bus->producer("bench"));
    while (consumer->assignment().empty()) must(consumer->poll(1, 100ms));
    // A producer's first record waits for leaders and, on Kafka, for a producer id: it is measured separately.
    const auto opened = Clock::now();
    const std::vector<qm::bus::Record> opening{{topics[0], "key0", "first"}};
    must(producer->publish(opening, 30s));
    while (must(consumer->poll(1, 100ms)).empty()) {
    }
    const double first = since(opened) * 1000;
    const auto start = Clock::now() + 100ms;
    const auto due = [&](int i) { return start + std::chrono::nanoseconds(std::int64_t{1'000'000'000} * i / rate); };
    // Like the relay: all due records are sent in one call, and the next call waits for it.
    std::thread sender([&] {
      for (int sent = 0; sent < records;) {
        std::this_thread::sleep_until(due(sent));
        std::vector<qm::bus::Record> part;
        for (; sent < records && due(sent) <= Clock::now(); ++sent)
          part.push_back({topics[0], "key" + std::to_string(sent % kKeys), std::to_string(sent)});
        must(producer->publish(part, 30s));
      }
    });
    std::vector<double> times;
    while (times.size() < static_cast<std::size_t>(records))
      for (const auto& message : must(consumer->poll(512, 100ms)))
        times.push_back(since(due(std::stoi(message.value))) * 1000);
    sender.join();
    if (repeat < 0) continue;
    report.add("p50_ms", at_share(times, 0.5));
    report.add("p99_ms", at_share(times, 0.99));
    report.add("first_ms", first);
  }
  report.print();
}

void store(const std::string& conninfo, int batch) {
  Report report("store.commit", {{"carrier", "postgres"}, {"batch", batch}});
  std::uint64_t journal = 0, outbox = 0;
  const auto place = must(qm::store::open_postgres({.conninfo = conninfo, .service = "bench"}));
  const auto loaded = must(place->acquire("bench"));
  journal = loaded.journal_sequence;
  outbox = loaded.outbox_sequence;
  for (int repeat = -1; repeat < kRepeats; ++repeat) {
    std::vector<double> times;
    const auto start = Clock::now();
    while (since(start) < 2) {
      qm::store::Commit commit;
      commit.journal_sequence = ++journal;
      commit.journal = std::string(kBytes * static_cast<std::size_t>(batch), 'j');
      commit.cursors = {{"qm.other", 0, static_cast<std::int64_t>(journal)}};
      for (int i = 0; i < batch; ++i) {
        const auto key = "key" + std::to_string((journal * 7919 + static_cast<std::uint64_t>(i)) % 20000);
        commit.state.push_back({"job", key, std::string(kBytes, 's')});
        commit.outbox.push_back({++outbox, "qm.bench", key, journal, false, std::string(kBytes, 'o')});
        commit.seen.push_back({"qm.other", key, journal, false});
      }
      const auto begin = Clock::now();
      if (must(place->commit(commit)) != qm::store::CommitOutcome::kCommitted) std::exit(1);
      times.push_back(since(begin) * 1000);
    }
    must(place->published(outbox, loaded.epoch));
    if (repeat < 0) continue;
    report.add("inputs_per_s", static_cast<double>(times.size()) * batch / since(start));
    report.add("p50_ms", at_share(times, 0.5));
    report.add("p99_ms", at_share(times, 0.99));
  }
  report.print();
}

}  // namespace

int main(int argc, char** argv) {
  qm::log::init("bus_bench", qm::log::Format::kText, qm::log::Level::kError);
  const std::string verb = argc >= 4 ? argv[1] : "";
  if (verb == "throughput") return throughput(argv[2], std::atoi(argv[3])), 0;
  if (verb == "latency") return latency(argv[2], std::atoi(argv[3])), 0;
  if (verb == "store") return store(argv[2], std::atoi(argv[3])), 0;
  if (verb == "pipeline") return pipeline(argv[2], argv[3]), 0;
  if (verb == "effect" && argc == 5) return effect(argv[2], std::atoi(argv[3]), argv[4]), 0;
  std::cerr << "usage: bus_bench throughput SETTING BATCH | latency SETTING PER_SECOND | store CONNINFO BATCH | "
               "pipeline SETTING CONNINFO | effect SETTING PER_SECOND CONNINFO\n";
  return 2;
}
