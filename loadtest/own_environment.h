// SPDX-License-Identifier: Apache-2.0
//
// What a report says of the machine that the load comes from.

#ifndef QGEMM_LOADTEST_OWN_ENVIRONMENT_H_
#define QGEMM_LOADTEST_OWN_ENVIRONMENT_H_

#include "loadtest/options.h"
#include "loadtest/report/loadtest_report.h"

namespace qgemm {

// All but the server; what the system does not tell is left empty.
LoadtestEnvironment OwnEnvironment(const LoadtestOptions& options);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_OWN_ENVIRONMENT_H_
