#include "runtime/ThreadPool.h"

#include "runtime/Environment.h"
#include "runtime/Log.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <mutex>
#include <new>
#include <pthread.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace attune;

namespace {

/// Scratch memory of one thread. It grows on demand and is freed when the thread ends.
class Scratch {
public:
  Scratch() = default;
  Scratch(const Scratch &) = delete;
  Scratch &operator=(const Scratch &) = delete;
  ~Scratch() { release(); }

  void *reserve(size_t wanted) {
    if (wanted > bytes) {
      release();
      data = ::operator new(wanted, alignment);
      bytes = wanted;
    }
    return data;
  }

private:
  static constexpr std::align_val_t alignment{64};
  void release() {
    if (data)
      ::operator delete(data, alignment);
    data = nullptr;
    bytes = 0;
  }
  void *data = nullptr;
  size_t bytes = 0;
};

thread_local Scratch threadScratch;
thread_local bool insideBlock = false;

} // namespace

struct ThreadPool::State {
  explicit State(unsigned threads) : process(getpid()) {
    workers.reserve(threads - 1);
    for (unsigned i = 1; i < threads; ++i)
      if (pthread_t worker; pthread_create(&worker, nullptr, workOf, this) == 0) // std::thread would throw
        workers.push_back(worker);
      else // a limit on threads or memory is reached; the threads started so far do the work
        break;
  }

  ~State() {
    if (getpid() != process) { // a forked child has no workers to join
      for (pthread_t worker : workers)
        pthread_detach(worker);
      return;
    }
    {
      std::lock_guard lock(mutex);
      stopping = true;
    }
    wake.notify_all();
    for (pthread_t worker : workers)
      pthread_join(worker, nullptr);
  }

  static void *workOf(void *state) {
    static_cast<State *>(state)->work();
    return nullptr;
  }

  void work() {
    unsigned long seen = 0;
    for (;;) {
      {
        std::unique_lock lock(mutex);
        wake.wait(lock, [&] { return stopping || generation != seen; });
        if (stopping)
          return;
        seen = generation;
      }
      takeBlocks();
      std::lock_guard lock(mutex);
      if (--busy == 0)
        done.notify_one();
    }
  }

  /// Takes and runs blocks of the current run until none is left.
  void takeBlocks() {
    size_t block = next.fetch_add(1, std::memory_order_relaxed);
    if (block >= blocks)
      return;
    insideBlock = true;
    void *scratch = threadScratch.reserve(scratchBytes);
    for (; block < blocks; block = next.fetch_add(1, std::memory_order_relaxed))
      function(context, block, scratch);
    insideBlock = false;
  }

  const pid_t process;
  std::mutex turn; // held during runBlocks, so that calls from several threads execute one after another

  std::mutex mutex; // guards the next four fields
  std::condition_variable wake, done;
  unsigned long generation = 0; // number of the current run; workers wait until this number changes
  size_t busy = 0;              // workers that have not finished this generation
  bool stopping = false;

  // Fields of the current run, written before `generation` is incremented. While workers run, they increment `next` and
  // only read the other fields.
  std::atomic<size_t> next = 0;
  size_t blocks = 0;
  size_t scratchBytes = 0;
  BlockFunction function = nullptr;
  void *context = nullptr;

  std::vector<pthread_t> workers;
};

ThreadPool::ThreadPool(unsigned threads) : state(std::make_unique<State>(std::max(threads, 1u))) {}
ThreadPool::~ThreadPool() = default;

unsigned ThreadPool::threads() const { return unsigned(state->workers.size()) + 1; }

static unsigned hardwareThreads() { return std::max(std::thread::hardware_concurrency(), 1u); }

Expected<unsigned> ThreadPool::threadsToUse() {
  constexpr unsigned most = 1024;
  const std::string text = valueOf(EnvironmentVariable::NumThreads);
  if (text.empty())
    return hardwareThreads();
  unsigned value = 0;
  auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code == std::errc() && stop == text.data() + text.size() && value >= 1 && value <= most)
    return value;
  return Error{fmt::format("ATTUNE_NUM_THREADS is '{}', but must be a whole number from 1 to {}; correct or unset it",
                           text, most)};
}

ThreadPool &ThreadPool::process() {
  // Leaked on purpose: a host kernel may still run while static objects are being destroyed.
  static ThreadPool *pool = [] {
    const Expected<unsigned> threads = threadsToUse();
    if (!threads)
      logLine(LogLevel::Warning, "{}", threads.error().message);
    return new ThreadPool(threads ? *threads : hardwareThreads());
  }();
  return *pool;
}

void ThreadPool::runBlocks(size_t blocks, size_t scratchBytes, BlockFunction function, void *context) {
  if (blocks == 0)
    return;
  if (insideBlock) { // a nested run: this thread's scratch is in use by the enclosing block
    Scratch own;
    void *scratch = own.reserve(scratchBytes);
    for (size_t block = 0; block < blocks; ++block)
      function(context, block, scratch);
    return;
  }
  if (blocks == 1 || state->workers.empty() || getpid() != state->process) {
    insideBlock = true;
    void *scratch = threadScratch.reserve(scratchBytes);
    for (size_t block = 0; block < blocks; ++block)
      function(context, block, scratch);
    insideBlock = false;
    return;
  }
  std::lock_guard turn(state->turn);
  {
    std::lock_guard lock(state->mutex);
    state->next.store(0, std::memory_order_relaxed);
    state->blocks = blocks;
    state->scratchBytes = scratchBytes;
    state->function = function;
    state->context = context;
    state->busy = state->workers.size();
    ++state->generation;
  }
  state->wake.notify_all();
  state->takeBlocks();
  std::unique_lock lock(state->mutex);
  state->done.wait(lock, [&] { return state->busy == 0; });
}
