// SPDX-License-Identifier: Apache-2.0
//
// A second opinion on what LoadProgram takes, written from docs/programs.md on
// the message itself. It shares no code with the check and the translation.

#ifndef QGEMM_TESTS_SERVER_RPC_PROGRAM_LEGALITY_H_
#define QGEMM_TESTS_SERVER_RPC_PROGRAM_LEGALITY_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "qgemm/v1/program.pb.h"

namespace qgemm {

// Weights as the documents speak of them.
struct WeightsFacts {
  uint64_t n = 0;
  uint64_t k = 0;
  bool is_q4_0 = false;
  bool has_whole_codes = false;
};

// By every name and id that they have.
using WeightsFactsByName = std::map<std::string, WeightsFacts>;

// The codes of everything that is wrong with the program, of which a server may
// report any; empty: it must take the program.
std::set<absl::StatusCode> ReasonsToRefuse(const v1::Program& program,
                                           const WeightsFactsByName& weights);

}  // namespace qgemm

#endif  // QGEMM_TESTS_SERVER_RPC_PROGRAM_LEGALITY_H_
