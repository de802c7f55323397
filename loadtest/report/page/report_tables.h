// SPDX-License-Identifier: Apache-2.0
//
// What the tables of the page hold.

#ifndef QGEMM_LOADTEST_REPORT_PAGE_REPORT_TABLES_H_
#define QGEMM_LOADTEST_REPORT_PAGE_REPORT_TABLES_H_

#include "loadtest/report/loadtest_report.h"
#include "loadtest/report/page/html_table.h"

namespace qgemm {

// Percentiles from the intended start, from the send and of each class.
HtmlTable PercentileTable(const RunResult& run);
// A row a run; the headline and the one that stands out are marked.
HtmlTable RunsTable(const LoadtestReport& report);
// Stages of a request in the order of TimingBar: mean, p50, p99.
HtmlTable TimingTable(const RunResult& run);
HtmlTable YardstickTable(const Yardstick& yardstick);
// Requests by how they ended, and errors by code with their first message.
HtmlTable OutcomeTable(const RunResult& run);
HtmlTable ErrorTable(const RunResult& run);
// Lag of the generator and processor time of both sides.
HtmlTable CostTable(const RunResult& run);
HtmlTable VerifyTable(const VerifyReport& verify);
HtmlTable EnvironmentTable(const LoadtestReport& report);
HtmlTable OptionTable(const LoadtestReport& report);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_REPORT_PAGE_REPORT_TABLES_H_
