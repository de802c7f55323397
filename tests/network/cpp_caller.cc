// SPDX-License-Identifier: Apache-2.0
//
// The C++ client as caller.py is the stock one: calls Gemm from several
// threads until it is told to stop, and prints what became of the calls. A
// layer's answers must all be the first one's bytes, which it prints too.
//
// Usage: cpp_caller TARGETS TLS_FOLDER CALLS UNTIL NAME...
// It ends after so many calls, and once the file UNTIL exists.

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <iostream>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "nlohmann/json.hpp"
#include "qgemm/client.h"

namespace {

constexpr int64_t kM = 2;  // as in layer.py
constexpr int64_t kK = 64;
constexpr int kThreads = 8;

// Elements -2, -1, 0, 1, 2 and so on.
std::vector<qgemm::Half> Activations() {
  std::vector<qgemm::Half> a;
  for (int i = 0; i < kM * kK; ++i) {
    a.push_back(qgemm::Half(static_cast<float>(i % 5 - 2)));
  }
  return a;
}

class Caller {
 public:
  Caller(qgemm::Client* client, std::vector<std::string> names, int64_t calls,
         std::string until)
      : client_(client),
        names_(std::move(names)),
        calls_(calls),
        until_(std::move(until)) {}

  void Run() {
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) threads.emplace_back([this] { Work(); });
    for (std::thread& thread : threads) thread.join();
  }

  // {"ends": {"ok": 4711}, "products": {"name": "hexadecimal digits"}}
  std::string Outcome() const {
    nlohmann::json outcome;
    outcome["ends"] = ends_;
    for (const auto& [name, c] : products_) {
      outcome["products"][name] = absl::BytesToHexString(c);
    }
    return outcome.dump();
  }

 private:
  void Work() {
    const std::vector<qgemm::Half> a = Activations();
    for (;;) {
      const int64_t call = begun_.fetch_add(1);
      if (call >= calls_ && access(until_.c_str(), F_OK) == 0) return;
      qgemm::GemmRequest gemm;
      gemm.weights = names_[call % names_.size()];
      gemm.m = kM;
      gemm.SetA(a);
      gemm.c_type = qgemm::FloatType::kFloat32;
      gemm.deadline = absl::Now() + absl::Seconds(60);
      Count(gemm.weights, client_->Gemm(gemm));
    }
  }

  void Count(const std::string& name,
             const absl::StatusOr<qgemm::GemmResult>& result) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!result.ok()) {
      ++ends_[result.status().ToString()];
      return;
    }
    const auto [first, is_first] = products_.emplace(name, result->c);
    ++ends_[first->second == result->c ? "ok" : "other bits"];
  }

  qgemm::Client* const client_;
  const std::vector<std::string> names_;
  const int64_t calls_;
  const std::string until_;
  std::atomic<int64_t> begun_{0};
  std::mutex mutex_;
  std::map<std::string, int64_t> ends_;
  std::map<std::string, std::string> products_;
};

}  // namespace

int main(int argc, char** argv) {
  int64_t calls = 0;
  if (argc < 6 || !absl::SimpleAtoi(argv[3], &calls)) {
    std::cerr << "usage: cpp_caller TARGETS TLS_FOLDER CALLS UNTIL NAME...\n";
    return 2;
  }
  const std::string folder = argv[2];
  qgemm::ClientOptions options;
  options.tls.emplace();
  options.tls->ca_file = folder + "/ca.crt";
  options.tls->certificate_file = folder + "/tls.crt";
  options.tls->key_file = folder + "/tls.key";
  const auto client = qgemm::Client::Connect(argv[1], options);
  if (!client.ok()) {
    std::cerr << client.status() << "\n";
    return 1;
  }
  Caller caller(client->get(), {argv + 5, argv + argc}, calls, argv[4]);
  caller.Run();
  std::cout << caller.Outcome() << std::endl;
  return 0;
}
