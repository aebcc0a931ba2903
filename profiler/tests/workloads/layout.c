// A structure with everything that a structure can have. Says itself where its members lie: "PATH OFFSET SIZE" a line.

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct unknown;
struct inner {
	uint8_t a, b;
	unsigned int x : 3, y : 13;
};
typedef struct {
	int lock;
} lock_t;
struct __attribute__((packed)) packed {
	char c;
	long l;
};

struct busy {
	struct inner in;
	const char *name;
	unsigned int shift;
	atomic_long counter;
	union {
		long l;
		struct {
			int lo, hi;
		};
		double d;
	};
	char grid[3][5];
	struct packed packed;
	pthread_mutex_t mutex;
	void (*done)(struct busy *, int);
	struct unknown *unknown;
	struct busy *next[2];
	lock_t lock;
	long aligned __attribute__((aligned(64)));
	unsigned long tail[];
};

struct busy object;

__attribute__((noinline)) unsigned int reader(const struct busy *busy, int plus)
{
	return busy->shift + plus;
}

#define SAY(path) printf(#path " %zu %zu\n", offsetof(struct busy, path), sizeof(object.path))

int main(int argc, char **argv)
{
	(void)argv;
	SAY(in);
	SAY(in.a);
	SAY(in.b);
	SAY(name);
	SAY(shift);
	SAY(counter);
	SAY(l);
	SAY(lo);
	SAY(hi);
	SAY(d);
	SAY(grid);
	SAY(packed);
	SAY(packed.l);
	SAY(mutex);
	SAY(done);
	SAY(unknown);
	SAY(next);
	SAY(next[1]);
	SAY(lock);
	SAY(lock.lock);
	SAY(aligned);
	return reader(&object, argc) == 0;
}
