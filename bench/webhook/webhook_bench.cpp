// The cost of the webhook. Prints a JSON line for each measure, with the median, minimum and maximum of its repeats.
//
//   webhook_bench decide [POLICY]     only the decision, in this thread; optionally with the rules of a policy file
//   webhook_bench review RATE         reviews over HTTPS on kept connections, from the instant when each is due
//   webhook_bench saturated N         the same from N connections without a pause
//   webhook_bench pods N SECONDS      pod creations on a real API server (QM_KUBE_URL), by N clients, alternating
//                                     between a namespace with the webhook and one without: single pods, and pods of a
//                                     reviewed Job as the Job controller creates them
//   webhook_bench floor SECONDS       pod creations there by one client, alternating: without a webhook, with ours,
//                                     and with the steps between (floor.cpp), to separate our part of a call from the
//                                     cost of any webhook
#include "fixture.hpp"
#include "qm/admission/webhook/review.hpp"
#include "qm/admission_policy/policy_file.hpp"

#include <atomic>
#include <mutex>
#include <thread>

namespace qm::bench {
namespace {

using namespace std::chrono_literals;
namespace webhook = admission::webhook;

void add_times(Report& report, const std::vector<double>& took) {
  report.add("p50_ms", at_share(took, 0.5));
  report.add("p99_ms", at_share(took, 0.99));
}

std::string review() {
  auto request = Json::object({{"uid", "705ab4f5-6393-11e8-b7cc-42010a800002"},
                               {"kind", Json::object({{"group", ""}, {"version", "v1"}, {"kind", "Pod"}})},
                               {"namespace", "bench"},
                               {"operation", "CREATE"},
                               {"userInfo", Json::object({{"username", "bench"}})},
                               {"object", gpu_pod("bench")}});
  return Json::object(
             {{"apiVersion", "admission.k8s.io/v1"}, {"kind", "AdmissionReview"}, {"request", std::move(request)}})
      .dump();
}

http::Request post(const char* path) {
  http::Request out;
  out.method = "POST";
  out.target = path;
  out.headers.set("Content-Type", "application/json");
  out.body = review();
  return out;
}

void send(http::Client& client, const http::Request& request) {
  if (must(client.send(request)).status != 200) std::exit(1);
}

void decide(const std::string& policy) {
  const auto view = cluster({"bench"});
  admission_policy::Settings settings;
  if (!policy.empty()) must(admission_policy::read_policy_file(policy, settings));
  for (const auto* path : {"/mutate", "/validate"}) {
    const auto request = post(path);
    Report report(std::string(policy.empty() ? "webhook.decide" : "webhook.decide_by_policy") + path, {});
    for (int repeat = -1; repeat < kRepeats; ++repeat) {
      const auto begin = Clock::now();
      for (int i = 0; i < 20'000; ++i) {
        if (webhook::respond(request, settings, *view).status != 200) std::exit(1);
      }
      if (repeat >= 0) report.add("us_each", ms(Clock::now() - begin) * 1000 / 20'000);
    }
    report.print();
  }
}

void reviews(int rate) {
  Running running;
  const auto request = post("/mutate");
  Report report("webhook.review", {{"rate", rate}});
  constexpr int kClients = 4;
  for (int repeat = -1; repeat < kRepeats; ++repeat) {
    const int all = rate * (repeat < 0 ? 1 : 5);
    std::mutex mutex;
    std::vector<double> took;
    std::atomic<int> next{0};
    const auto start = Clock::now() + 50ms;
    std::vector<std::jthread> clients;
    for (int c = 0; c < kClients; ++c) {
      clients.emplace_back([&] {
        const auto client = running.client();
        std::vector<double> own;
        send(*client, request);  // opens the connection
        for (int i = next++; i < all; i = next++) {
          const auto due = start + std::chrono::nanoseconds(std::int64_t{1'000'000'000} * i / rate);
          std::this_thread::sleep_until(due);
          send(*client, request);
          own.push_back(ms(Clock::now() - due));
        }
        const std::scoped_lock lock(mutex);
        took.insert(took.end(), own.begin(), own.end());
      });
    }
    clients.clear();
    if (repeat >= 0) add_times(report, took);
  }
  report.print();
}

void saturated(int connections) {
  Running running;
  const auto request = post("/mutate");
  Report report("webhook.saturated", {{"connections", connections}});
  for (int repeat = -1; repeat < kRepeats; ++repeat) {
    std::mutex mutex;
    std::vector<double> took;
    const auto begin = Clock::now(), end = begin + (repeat < 0 ? 1s : 3s);
    std::vector<std::jthread> clients;
    for (int c = 0; c < connections; ++c) {
      clients.emplace_back([&] {
        const auto client = running.client();
        std::vector<double> own;
        send(*client, request);
        for (auto at = Clock::now(); at < end;) {
          send(*client, request);
          const auto after = Clock::now();
          own.push_back(ms(after - at));
          at = after;
        }
        const std::scoped_lock lock(mutex);
        took.insert(took.end(), own.begin(), own.end());
      });
    }
    clients.clear();
    if (repeat < 0) continue;
    report.add("per_s", static_cast<double>(took.size()) / (ms(Clock::now() - begin) / 1000));
    add_times(report, took);
  }
  report.print();
}

}  // namespace
}  // namespace qm::bench

int main(int argc, char** argv) {
  using namespace qm::bench;
  const std::string verb = argc > 1 ? argv[1] : "";
  const auto number = [&](int i, int fallback) { return argc > i ? std::atoi(argv[i]) : fallback; };
  if (verb == "decide") {
    decide(argc > 2 ? argv[2] : "");
  } else if (verb == "review") {
    reviews(number(2, 200));
  } else if (verb == "saturated") {
    saturated(number(2, 4));
  } else if (verb == "pods") {
    pods(number(2, 1), number(3, 6));
  } else if (verb == "floor") {
    floor_of_calls(number(2, 6));
  } else {
    std::cerr << "webhook_bench decide [POLICY] | review RATE | saturated N | pods N SECONDS | floor SECONDS\n";
    return 2;
  }
}
