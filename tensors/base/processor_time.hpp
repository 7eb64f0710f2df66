#pragma once
/// Processor time, for costs that other programs on the machine should not change.

namespace zerolock {

/// Seconds of processors that the calling thread has had. Only differences mean anything.
double thread_cpu_seconds();
/// The same of all threads of this process together.
double process_cpu_seconds();

}  // namespace zerolock
