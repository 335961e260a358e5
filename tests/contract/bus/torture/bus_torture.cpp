// A producer, a consumer or a service's host in its own process, for tests that kill it at a crash point
// (QM_CRASH_AT) and start it again. Its durable state is in its state file, which is replaced atomically, or in
// PostgreSQL.
//
//   bus_torture produce SETTING TOPIC STATE KEYS VERSIONS     every key goes through versions 1 to VERSIONS
//   bus_torture consume SETTING TOPIC STATE KEYS VERSIONS     ends when every key is at VERSIONS;
//                                                             4 = a version is missing
//   bus_torture sit SETTING TOPIC                             reads for ever, with a session timeout of an hour
//   bus_torture serve|apply SETTING TOPIC STATE KEYS VERSIONS CONNINFO SHARD     see hosts.hpp
//   bus_torture points                                        lists the crash points of this program
//
// With QM_TORTURE_TRACE set, the last lines of its output are the crash points that it passed and their counts.
#include "hosts.hpp"
#include "qm/base/crash_point.hpp"
#include "qm/base/log.hpp"
#include "qm/bus/bus.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <mutex>

namespace {

using namespace std::chrono_literals;
using qm::bus::TopicPartition;
using qm::torture::key_name;
using qm::torture::Settings;

/// Numbers by name; a file that survives the process, or does not exist.
using State = std::map<std::string, std::int64_t>;

State load(const std::string& path) {
  State out;
  std::ifstream in(path);
  std::string name;
  for (std::int64_t value = 0; in >> name >> value;) out[name] = value;
  return out;
}

void save(const std::string& path, const State& state) {
  {
    std::ofstream out(path + ".new");
    for (const auto& [name, value] : state) out << name << ' ' << value << '\n';
  }
  std::filesystem::rename(path + ".new", path);
}

int refuse(const qm::Error& error) {
  std::cerr << error.to_string() << '\n';
  return 3;
}

int produce(qm::bus::Bus& bus, const Settings& settings) {
  auto producer = bus.producer("torture");
  if (!producer) return refuse(producer.error());
  auto state = load(settings.state);
  for (auto version = state["done"] + 1; version <= settings.versions; ++version) {
    std::vector<qm::bus::Record> records;
    for (int key = 0; key < settings.keys; ++key)
      records.push_back({settings.topic, key_name(key), std::to_string(version)});
    while (true) {
      const auto sent = (*producer)->publish(records, 2s);
      if (sent) break;
      if (sent.error().code != qm::Code::kUnavailable && sent.error().code != qm::Code::kUnknown)
        return refuse(sent.error());
    }
    state["done"] = version;
    save(settings.state, state);
  }
  return 0;
}

std::string cursor_name(const TopicPartition& at) { return "@" + std::to_string(at.partition); }

int consume(qm::bus::Bus& bus, const Settings& settings) {
  auto state = load(settings.state);
  auto consumer = bus.consumer({.group = "torture/" + settings.topic,
                                .topics = {settings.topic},
                                .cursor =
                                    [&](const TopicPartition& at) {
                                      const auto found = state.find(cursor_name(at));
                                      return found == state.end() ? -1 : found->second;
                                    },
                                .session_timeout = 30s,
                                .instance = "torture"});
  if (!consumer) return refuse(consumer.error());
  int finished = 0;
  for (const auto& [name, value] : state) finished += name.front() == 'k' && value == settings.versions ? 1 : 0;
  std::int64_t duplicates = 0;
  while (finished < settings.keys) {
    const auto messages = (*consumer)->poll(7, 100ms);
    if (!messages) continue;  // the carrier is unavailable
    for (const auto& message : *messages) {
      auto& last = state[message.key];
      const auto version = std::stoll(message.value);
      if (version > last + 1) {
        std::cerr << message.key << " goes from version " << last << " to " << version << '\n';
        return 4;
      }
      if (version <= last) ++duplicates;
      if (version == last + 1) {
        last = version;
        if (version == settings.versions) ++finished;
      }
      state[cursor_name(message.at)] = message.offset + 1;
    }
    if (messages->empty()) continue;
    QM_CRASH_POINT("torture.before_state");
    save(settings.state, state);
    QM_CRASH_POINT("torture.after_state");
    for (const auto& message : *messages) (*consumer)->report(message.at, message.offset + 1);
  }
  std::cout << "duplicates " << duplicates << '\n';
  return 0;
}

/// A member without a name that would not expire for an hour.
int sit(qm::bus::Bus& bus, const std::string& topic) {
  auto consumer = bus.consumer({.group = "sit/" + topic, .topics = {topic}, .cursor = {}, .session_timeout = 1h});
  if (!consumer) return refuse(consumer.error());
  for (bool assigned = false;;) {
    (void)(*consumer)->poll(1, 100ms);
    if (!assigned && !(*consumer)->assignment().empty()) std::cout << "sits" << std::endl;
    assigned = !(*consumer)->assignment().empty();
  }
}

std::mutex passed_mutex;
std::map<std::string, int, std::less<>> passed;

void note_passage(std::string_view name) {
  {
    const std::lock_guard lock(passed_mutex);
    ++passed[std::string(name)];
  }
  qm::arm_crash_point(name, 1, &note_passage);
}

int run(const std::string& verb, int argc, char** argv) {
  if (verb == "points") {
    for (const auto name : qm::crash_points()) std::cout << name << '\n';
    return 0;
  }
  if (argc < 4) return 2;
  const auto bus = qm::bus::make_bus(argv[2]);
  if (!bus) return refuse(bus.error());
  if (verb == "sit") return sit(**bus, argv[3]);
  if (argc < 7) return 2;
  Settings settings{argv[3], argv[4], std::atoi(argv[5]), std::atoi(argv[6]), "", ""};
  if (verb == "produce") return produce(**bus, settings);
  if (verb == "consume") return consume(**bus, settings);
  if (argc < 9) return 2;
  settings.conninfo = argv[7];
  settings.shard = argv[8];
  if (verb == "serve") return qm::torture::serve(*bus, settings);
  if (verb == "apply") return qm::torture::apply(*bus, settings);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  qm::log::init("bus_torture", qm::log::Format::kText, qm::log::Level::kWarn);
  if (std::getenv("QM_TORTURE_TRACE") != nullptr)
    for (const auto name : qm::crash_points()) qm::arm_crash_point(name, 1, &note_passage);
  const int status = run(argv[1], argc, argv);
  for (const auto& [name, count] : passed) std::cout << "passed " << name << ' ' << count << '\n';
  return status;
}
